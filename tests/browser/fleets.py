"""State documents for tests of the page: small fleets with everything in them, and a large one."""

from __future__ import annotations

import random
from typing import Any, Final

GPU: Final = "gpu.nvidia.com"
NIC: Final = "nic.example.com"
REASON: Final = (
    "there are no devices for its claims: no device matches selector 0 "
    "(`memory`: the largest is 80Gi)"
)
FIX: Final = "write `80Gi` instead of `96Gi` in selector 0 of request gpu; it fits on h100-0"
START: Final = "2026-11-19T09:00:00Z"

State = dict[str, Any]


def mixed() -> State:
    """Nodes with H100 and NICs, one with A100 in partitions, one with a shared GPU, and a pool."""
    shapes = {
        "h100": _shape(GPU, "NVIDIA H100", "80Gi", 0, {"architecture": "Hopper"}),
        "a100": _shape(GPU, "NVIDIA A100", "80Gi", 8, {"architecture": "Ampere"}, "mig.nvidia.com"),
        "l40": _shape(GPU, "NVIDIA L40S", "48Gi", 0, {"architecture": "Ada"}),
        "nic": _shape(NIC, "ConnectX-7", "", 0, {"speed": "400G"}, classes=("nic.example.com",)),
    }
    nodes = {
        "h100-0": _node("a", "r1"),
        "h100-1": _node("a", "r1", cordoned=True),
        "a100-0": _node("b", "r2"),
        "l40-0": _node("b", "r2", ready=False),
        "cpu-0": _node("b", "r3"),
    }
    cells: dict[str, Any] = {}
    for node in ("h100-0", "h100-1"):
        for index in range(4):
            cells[f"{GPU}/{node}/gpu-{index}"] = _cell(node, "h100")
            cells[f"{NIC}/{node}/nic-{index}"] = _cell(node, "nic")
    hold(cells[f"{GPU}/h100-0/gpu-0"], "ml/train-gpu", "ml/train")
    hold(cells[f"{GPU}/h100-0/gpu-1"], "ml/train-gpu", "ml/train")
    hold(cells[f"{GPU}/h100-1/gpu-2"], "web/infer-gpu", "web/infer-7d9f4c5b8-x2x9k")
    cells[f"{GPU}/h100-0/gpu-3"] |= {"m": ["tainted", "unhealthy"]}
    cells[f"{GPU}/h100-1/gpu-3"] |= {"m": ["tainted"]}
    cells[f"{GPU}/h100-1/gpu-0"] |= {
        "st": "blocked",
        "t": "blocked (a slice of the pool is missing)",
    }
    for index in range(4):
        cells[f"{GPU}/a100-0/gpu-{index}"] = _cell("a100-0", "a100")
    halves = cells[f"{GPU}/a100-0/gpu-0"]
    halves |= {
        "st": "in use",
        "f": 100,
        "h": ["ml/left-gpu", "ml/right-gpu"],
        "u": ["ml/left", "ml/right"],
    }
    halves["p"] = [
        part(f"{GPU}/a100-0/gpu-0-mig-3g.40gb-0", 0, 4, "ml/left-gpu", "ml/left"),
        part(f"{GPU}/a100-0/gpu-0-mig-3g.40gb-4", 4, 4, "ml/right-gpu", "ml/right"),
    ]
    holes = cells[f"{GPU}/a100-0/gpu-1"]
    holes |= {
        "st": "shared",
        "f": 50,
        "h": ["ml/nb-1", "ml/nb-2"],
        "u": ["ml/notebook-1", "ml/notebook-2"],
    }
    holes["p"] = [
        part(f"{GPU}/a100-0/gpu-1-mig-1g.10gb-0", 0, 1, "ml/nb-1", "ml/notebook-1"),
        part(f"{GPU}/a100-0/gpu-1-mig-2g.20gb-4", 4, 2, "ml/nb-2", "ml/notebook-2"),
        part(f"{GPU}/a100-0/gpu-1-mig-1g.10gb-6", 6, 1, "ml/nb-3", "ml/notebook-3"),
    ]
    hold(cells[f"{GPU}/a100-0/gpu-2"], "ml/whole-gpu", "ml/whole")
    cells[f"{GPU}/l40-0/gpu-0"] = _cell("l40-0", "l40") | {
        "st": "shared",
        "t": "shared (12Gi of 48Gi left)",
        "f": 75,
        "h": ["web/a", "web/b", "web/c"],
        "u": ["web/api-0", "web/api-1", "web/api-2"],
    }
    cells[f"{GPU}/l40-0/gpu-1"] = _cell("l40-0", "l40") | {
        "st": "missing",
        "h": ["web/gone"],
        "u": ["web/gone"],
    }
    cells[f"{GPU}/fabric/gpu-0"] = _cell("", "h100")
    return state(shapes, nodes, cells, waiting())


def waiting() -> dict[str, Any]:
    return {
        "pod/ml/dream": _waiting("Pod", "ml", "dream", "2026-11-19T08:41:00Z"),
        "pod/ml/bigger": _waiting("Pod", "ml", "bigger", "2026-11-19T08:59:10Z"),
        "claim/web/later": _waiting("ResourceClaim", "web", "later", "2026-11-18T20:00:00Z")
        | {
            "short": "no node",
            "reason": "claim web/later waits: no node matches the pod's nodeSelector",
            "fix": "",
        },
    }


def _waiting(kind: str, namespace: str, name: str, since: str) -> dict[str, str]:
    return {
        "since": since,
        "kind": kind,
        "ns": namespace,
        "name": name,
        "reason": f"pod {namespace}/{name} waits: {REASON}",
        "short": "no device matches",
        "fix": FIX,
    }


def large(nodes: int = 5000, per_node: int = 8) -> State:
    """A fleet of that many nodes with as many GPUs each; every 20th node has GPUs in partitions."""
    dice = random.Random(7)
    shapes = {
        "h100": _shape(GPU, "NVIDIA H100", "80Gi", 0, {"architecture": "Hopper"}),
        "a100": _shape(GPU, "NVIDIA A100", "80Gi", 8, {"architecture": "Ampere"}, "mig.nvidia.com"),
    }
    all_nodes, cells = {}, {}
    for number in range(nodes):
        name = f"node-{number:04}"
        all_nodes[name] = _node(f"z{number % 3}", f"r{number // 32:03}", cordoned=number % 97 == 5)
        shape = "a100" if number % 20 == 7 else "h100"
        for index in range(per_node):
            key = f"{GPU}/{name}/gpu-{index}"
            cell = _cell(name, shape)
            luck = dice.random()
            claim, pod = (
                f"team-{number % 9}/job-{number}-{index}",
                f"team-{number % 9}/job-{number}-{index}-0",
            )
            if shape == "a100" and luck < 0.5:
                cell |= {
                    "st": "shared",
                    "f": 50,
                    "h": [claim],
                    "u": [pod],
                    "p": [part(f"{key}-mig-3g.40gb-0", 0, 4, claim, pod)],
                }
            elif luck < 0.62:
                hold(cell, claim, pod)
            elif luck < 0.68:
                cell |= {"st": "shared", "f": dice.randrange(10, 95), "h": [claim], "u": [pod]}
            elif luck < 0.69:
                cell |= {"st": "blocked"}
            elif luck < 0.694:
                cell |= {"st": "missing", "h": [claim]}
            if dice.random() < 0.006:
                cell["m"] = ["tainted"] if dice.random() < 0.6 else ["tainted", "unhealthy"]
            cells[key] = cell
    return state(shapes, all_nodes, cells, waiting())


def state(shapes: State, nodes: State, cells: State, waits: State) -> State:
    return {
        "seq": 1,
        "time": START,
        "shapes": shapes,
        "nodes": nodes,
        "cells": cells,
        "waiting": waits,
        "counts": counts(cells),
        "unreadable": [],
    }


def counts(cells: State) -> dict[str, int]:
    found: dict[str, int] = {}
    for cell in cells.values():
        found[cell["st"]] = found.get(cell["st"], 0) + 1
    return found


def hold(cell: State, claim: str, pod: str) -> State:
    cell |= {"st": "in use", "h": [claim], "u": [pod]}
    return cell


def part(key: str, first: int, slots: int, claim: str, pod: str) -> State:
    return {"k": key, "o": first, "w": slots, "st": "in use", "h": [claim], "u": [pod]}


def _shape(
    driver: str,
    model: str,
    memory: str,
    slots: int,
    attributes: State,
    *more: str,
    classes: tuple[str, ...] = ("gpu.nvidia.com",),
) -> State:
    return {
        "driver": driver,
        "model": model,
        "memory": memory,
        "slots": slots,
        "classes": [*classes, *more],
        "attributes": attributes,
    }


def _node(zone: str, rack: str, *, ready: bool = True, cordoned: bool = False) -> State:
    labels = {"topology.kubernetes.io/zone": zone, "example.com/rack": rack}
    return {"ready": ready, "cordoned": cordoned, "labels": labels, "simulated": True}


def _cell(node: str, shape: str) -> State:
    return {"n": node, "s": shape, "st": "free"}
