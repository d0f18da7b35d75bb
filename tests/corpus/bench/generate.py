"""Makes the scenarios that `dray bench allocate` places and that `answers` are recorded for.

`python -m tests.corpus.bench.generate S1 S1.json [--nodes N] [--claims N] [--size N]` writes one.
The answers belong to the default sizes. Equal arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Object = dict[str, Any]

DRIVER = "gpu.nvidia.com"
DOMAIN = "gpu.nvidia.com/nvswitchDomain"
GPUS = 8
"""GPUs of a node."""

AT_LEAST_40GI = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
HOPPER = (
    'device.attributes["gpu.nvidia.com"].architecture == "Hopper" && '
    'device.attributes["gpu.nvidia.com"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0 && '
    + AT_LEAST_40GI
)
BLACKWELL = 'device.attributes["gpu.nvidia.com"].architecture == "Blackwell"'
"""No device of any scenario is one."""


class Scale(NamedTuple):
    """How large a scenario is; 0 stands for its own size."""

    nodes: int = 0
    claims: int = 0
    size: int = 0


DEFAULT = Scale()


class Parts(NamedTuple):
    nodes: list[Object]
    slices: list[Object]
    classes: list[Object]
    claims: list[Object]


def make(name: str, scale: Scale = DEFAULT) -> Object:
    """Return a scenario as its file holds it."""
    parts = SCENARIOS[name](scale)
    return {"name": f"{name}-{scale.size}" if scale.size else name, **parts._asdict()}


def _node(number: int) -> Object:
    name = f"node-{number:05d}"
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": {}}


def _slice(node: str, number: int = 0, of: int = 1, **content: list[Object]) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}-{number}"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": of},
            "nodeName": node,
            **content,
        },
    }


def _gpu(node: int, number: int, **attributes: Object) -> Object:
    known = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{node:08x}-{number:04x}"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "550.54.15"},
        "cudaDriverVersion": {"version": "12.4.0"},
        "index": {"int": number},
        "minor": {"int": number},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02x}"},
    }
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": f"gpu-{number}", "attributes": {**known, **attributes}, "capacity": capacity}


def _class(name: str = DRIVER, expression: str = f'device.driver == "{DRIVER}"') -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _exactly(
    *expressions: str, device_class: str = DRIVER, count: int = 1, **more: Object
) -> Object:
    asked: Object = {
        "deviceClassName": device_class,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if expressions:
        asked["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    return {**asked, **more}


def _claim(number: int, *requests: Object, constraints: Sequence[Object] = ()) -> Object:
    devices: Object = {"requests": list(requests)}
    if constraints:
        devices["constraints"] = list(constraints)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"claim-{number:05d}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
        },
        "spec": {"devices": devices},
        "status": {},
    }


def _claims(count: int, name: str, exactly: Object) -> list[Object]:
    return [_claim(number, {"name": name, "exactly": exactly}) for number in range(count)]


def _fleet(
    count: int, attributes: Callable[[int, int], Object] = lambda _node, _gpu: {}
) -> tuple[list[Object], list[Object]]:
    """Return nodes with eight GPUs each, and their slices."""
    nodes, slices = [], []
    for number in range(count):
        node = _node(number)
        gpus = [_gpu(number, each, **attributes(number, each)) for each in range(GPUS)]
        nodes.append(node)
        slices.append(_slice(node["metadata"]["name"], devices=gpus))
    return nodes, slices


def _one_gpu(nodes: int, claims: int, selector: str) -> Parts:
    return Parts(*_fleet(nodes), [_class()], _claims(claims, "gpu", _exactly(selector)))


def _s1(scale: Scale) -> Parts:
    return _one_gpu(scale.nodes or 100, scale.claims or 800, AT_LEAST_40GI)


def _s2(scale: Scale) -> Parts:
    return _one_gpu(scale.nodes or 500, scale.claims or 4_000, HOPPER)


def _s3(scale: Scale) -> Parts:
    """Return four GPUs of one domain per claim, laid out so that a greedy choice backtracks.

    On even nodes the domains alternate. On odd nodes the first one has three GPUs, the first GPU
    among them: who begins with it comes to a dead end.
    """

    def domain(node: int, gpu: int) -> Object:
        number = gpu % 2 if node % 2 == 0 else int(gpu not in (0, 2, 4))
        return {"nvswitchDomain": {"string": f"node-{node:05d}-nvs{number}"}}

    count = scale.nodes or 1_000
    request = {"name": "gpus", "exactly": _exactly(count=4)}
    same = {"requests": ["gpus"], "matchAttribute": DOMAIN}
    claims = [
        _claim(number, request, constraints=[same])
        for number in range(scale.claims or count * 6 // 5)
    ]
    return Parts(*_fleet(count, domain), [_class()], claims)


class _Profile(NamedTuple):
    """What a partition of a GPU takes, and where it may begin."""

    memory_slices: int
    multiprocessors: int
    memory: str
    starts: Iterable[int]


PROFILES = {
    "1g.10gb": _Profile(1, 16, "10Gi", range(7)),
    "2g.20gb": _Profile(2, 32, "20Gi", (0, 2, 4)),
    "3g.40gb": _Profile(4, 60, "40Gi", (0, 4)),
}
_ONE, _TWO, _THREE = PROFILES
WANTED = (_ONE, _TWO, _ONE, _THREE, _ONE, _TWO, _ONE, _TWO, _ONE, _THREE)
"""The profiles that claims ask for, again and again."""


def _counters(multiprocessors: int, memory: str, memory_slices: Iterable[int]) -> Object:
    return {
        "multiprocessors": {"value": str(multiprocessors)},
        "memory": {"value": memory},
        **{f"memory-slice-{number}": {"value": "1"} for number in memory_slices},
    }


def _partition(node: int, gpu: int, name: str, profile: _Profile, start: int) -> Object:
    taken = range(start, start + profile.memory_slices)
    counters = _counters(profile.multiprocessors, profile.memory, taken)
    return {
        "name": f"gpu-{gpu}-mig-{name.replace('.', '-')}-{start}",
        "attributes": {
            "type": {"string": "mig"},
            "profile": {"string": name},
            "parentIndex": {"int": gpu},
            "parentUUID": {"string": f"GPU-{node:08x}-{gpu:04x}"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
        },
        "capacity": {
            "memory": {"value": profile.memory},
            "multiprocessors": {"value": str(profile.multiprocessors)},
        },
        "consumesCounters": [{"counterSet": f"gpu-{gpu}-counters", "counters": counters}],
    }


def _partitionable(node: int, name: str) -> list[Object]:
    """Return the slices of a node: counters first, then a GPU and its partitions, GPU by GPU."""
    whole = _counters(132, "80Gi", range(8))
    sets = [{"name": f"gpu-{gpu}-counters", "counters": whole} for gpu in range(GPUS)]
    devices = []
    for gpu, counters in enumerate(sets):
        consumed = [{"counterSet": counters["name"], "counters": whole}]
        devices.append({**_gpu(node, gpu), "consumesCounters": consumed})
        devices += [
            _partition(node, gpu, title, profile, start)
            for title, profile in PROFILES.items()
            for start in profile.starts
        ]
    # A slice holds at most 64 devices that consume counters: four GPUs of 13 devices each.
    half = len(devices) // 2
    return [
        _slice(name, 0, 3, sharedCounters=sets),
        _slice(name, 1, 3, devices=devices[:half]),
        _slice(name, 2, 3, devices=devices[half:]),
    ]


def _s4(scale: Scale) -> Parts:
    nodes = [_node(number) for number in range(scale.nodes or 200)]
    slices = [
        piece
        for number, node in enumerate(nodes)
        for piece in _partitionable(number, node["metadata"]["name"])
    ]
    claims = []
    for number in range(scale.claims or 2_000):
        profile = WANTED[number % len(WANTED)]
        selector = f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
        exactly = _exactly(selector, device_class="mig.nvidia.com")
        claims.append(_claim(number, {"name": "mig", "exactly": exactly}))
    is_mig = f'device.driver == "{DRIVER}" && device.attributes["gpu.nvidia.com"].type == "mig"'
    return Parts(nodes, slices, [_class(), _class("mig.nvidia.com", is_mig)], claims)


def _s5(scale: Scale) -> Parts:
    nodes, slices = _fleet(scale.nodes or 100)
    for device in (each for piece in slices for each in piece["spec"]["devices"]):
        device["allowMultipleAllocations"] = True
        device["capacity"]["memory"]["requestPolicy"] = {
            "default": "10Gi",
            "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"},
        }
    share = _exactly(capacity={"requests": {"memory": "10Gi"}})
    return Parts(nodes, slices, [_class()], _claims(scale.claims or 6_400, "gpu", share))


def _hopeless(devices: list[Object], claim: Object) -> Parts:
    node = _node(0)
    return Parts([node], [_slice(node["metadata"]["name"], devices=devices)], [_class()], [claim])


def _s6a(scale: Scale) -> Parts:
    """Return two equal domains and one request too many for either, all tied together.

    A search that tries every order has (size/2)! of them per domain.
    """
    size = scale.size or 12
    devices = [
        _gpu(0, number, nvswitchDomain={"string": f"d{number % 2}"}) for number in range(size)
    ]
    requests = [{"name": f"r{number}", "exactly": _exactly()} for number in range(size // 2 + 1)]
    same = {"requests": [request["name"] for request in requests], "matchAttribute": DOMAIN}
    return _hopeless(devices, _claim(0, *requests, constraints=[same]))


def _s6b(scale: Scale) -> Parts:
    """Return `size` requests with two alternatives each, and a last one that no device matches."""
    alternatives = [{"name": f"a{number}", **_exactly()} for number in range(2)]
    requests = [
        {"name": f"r{number}", "firstAvailable": alternatives} for number in range(scale.size or 4)
    ]
    return _hopeless(_sixteen(), _claim(0, *requests, _unmatched()))


def _s6c(scale: Scale) -> Parts:
    """Return `size` plain requests, and a last one that no device matches."""
    requests = [{"name": f"r{number}", "exactly": _exactly()} for number in range(scale.size or 5)]
    return _hopeless(_sixteen(), _claim(0, *requests, _unmatched()))


def _sixteen() -> list[Object]:
    return [_gpu(0, number) for number in range(16)]


def _unmatched() -> Object:
    return {"name": "last", "exactly": _exactly(BLACKWELL)}


def _s7(scale: Scale) -> Parts:
    return _one_gpu(scale.nodes or 5_000, scale.claims or 500, AT_LEAST_40GI)


SCENARIOS: dict[str, Callable[[Scale], Parts]] = {
    "S1": _s1,
    "S2": _s2,
    "S3": _s3,
    "S4": _s4,
    "S5": _s5,
    "S6a": _s6a,
    "S6b": _s6b,
    "S6c": _s6c,
    "S7": _s7,
}


def main() -> None:
    """Write one scenario to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SCENARIOS)
    parser.add_argument("out", type=Path)
    for option in Scale._fields:
        parser.add_argument(f"--{option}", type=int, default=0)
    given = parser.parse_args()
    scenario = make(given.name, Scale(given.nodes, given.claims, given.size))
    given.out.write_text(json.dumps(scenario, separators=(",", ":")), "utf-8")


if __name__ == "__main__":
    main()
