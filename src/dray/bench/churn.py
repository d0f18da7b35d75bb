"""`dray bench churn`: a fleet that is nearly full and changes all the time.

Eight GPUs a node, nine tenths of them allocated to claims of many different signatures. Each step
deletes one claim and places another; every tenth also publishes a slice again. The cost of a step
should depend on what it changes, not on the size of the fleet.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec

from dray.allocator import placement
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.inventory.interning import Interner
from dray.api.ids import ClaimKey
from dray.api.types import dra
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.bench import measured_process

DRIVER = "gpu.nvidia.com"
GPUS = 8
_REPUBLISH_EVERY = 10
_FULL = 0.9

Progress = Callable[[int, int], None]


class Report(msgspec.Struct, kw_only=True):
    nodes: int
    signatures: int
    steps: int
    placed: int
    """Steps in which the new claim was placed."""
    steps_per_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float


def run(
    nodes: int = 500,
    *,
    steps: int = 3000,
    signatures: int = 500,
    seed: int = 1,
    progress: Progress | None = None,
) -> Report:
    churn = _Churn(nodes, signatures, random.Random(seed))
    churn.fill()
    latencies = []
    with measured_process.settled():
        began = before = time.perf_counter()
        for number in range(1, steps + 1):
            churn.step(number)
            after = time.perf_counter()
            latencies.append(1000 * (after - before))
            before = after
            if progress is not None:
                progress(number, steps)
    latencies.sort()
    return Report(
        nodes=nodes,
        signatures=signatures,
        steps=steps,
        placed=churn.placed,
        steps_per_s=steps / (before - began),
        p50_ms=latencies[steps // 2],
        p99_ms=latencies[steps * 99 // 100],
        max_ms=latencies[-1],
    )


class _Churn:
    def __init__(self, nodes: int, signatures: int, dice: random.Random) -> None:
        self._dice = dice
        self._fleet = ClusterInventory()
        self._allocator = placement.Allocator(self._fleet, new_share_id=str)
        self._slices: list[dra.ResourceSlice] = []
        self._questions = [_claim(number) for number in range(signatures)]
        self._living: list[ClaimKey] = []
        self._count = 0
        self.placed = 0
        self._fleet.put_class(_class())
        interner = Interner()
        for number in range(nodes):
            node = f"node-{number:05d}"
            self._fleet.put_node(Node(ObjectMeta(name=node)))
            self._slices.append(interner.share(_slice(node, number)))
            self._fleet.put_slice(self._slices[-1])

    def fill(self) -> None:
        for _ in range(int(len(self._slices) * GPUS * _FULL)):
            self._place()
        self.placed = 0

    def step(self, number: int) -> None:
        ending = self._dice.randrange(len(self._living))
        self._living[ending], self._living[-1] = self._living[-1], self._living[ending]
        self._fleet.release(self._living.pop())
        if number % _REPUBLISH_EVERY == 0:
            self._republish(self._dice.randrange(len(self._slices)))
        self._place()

    def _place(self) -> None:
        claim = self._dice.choice(self._questions)
        fit = self._allocator.first_fit((claim,))
        if isinstance(fit, placement.Fit):
            self._count += 1
            key = ClaimKey("default", f"claim-{self._count}")
            self._fleet.record_allocation(key, fit.allocations[0])
            self._living.append(key)
            self.placed += 1

    def _republish(self, number: int) -> None:
        current = self._slices[number]
        pool = current.spec.pool
        newer = msgspec.structs.replace(pool, generation=pool.generation + 1)
        spec = msgspec.structs.replace(current.spec, pool=newer)
        self._slices[number] = msgspec.structs.replace(current, spec=spec)
        self._fleet.put_slice(self._slices[number])


def _class() -> dra.DeviceClass:
    selector = dra.DeviceSelector(dra.CELDeviceSelector(f'device.driver == "{DRIVER}"'))
    return dra.DeviceClass(ObjectMeta(name=DRIVER), dra.DeviceClassSpec((selector,)))


def _slice(node: str, number: int) -> dra.ResourceSlice:
    devices = tuple(_gpu(number, index) for index in range(GPUS))
    spec = dra.ResourceSliceSpec(DRIVER, dra.ResourcePool(node, 1, 1), node, devices=devices)
    return dra.ResourceSlice(ObjectMeta(name=f"{node}-{DRIVER}"), spec)


def _gpu(node: int, index: int) -> dra.Device:
    attributes = {
        "type": dra.DeviceAttribute(string_value="gpu"),
        "uuid": dra.DeviceAttribute(string_value=f"GPU-{node:08x}-{index:04x}"),
        "productName": dra.DeviceAttribute(string_value="NVIDIA H100 80GB HBM3"),
        "architecture": dra.DeviceAttribute(string_value="Hopper"),
        "cudaComputeCapability": dra.DeviceAttribute(version_value="9.0.0"),
        "driverVersion": dra.DeviceAttribute(version_value="550.54.15"),
        "index": dra.DeviceAttribute(int_value=index),
    }
    return dra.Device(f"gpu-{index}", attributes, {"memory": dra.DeviceCapacity("80Gi")})


def _claim(number: int) -> dra.ResourceClaim:
    """Return a claim of its own signature: each requests another amount of memory."""
    expression = (
        f'device.attributes["{DRIVER}"].architecture == "Hopper" && '
        f'device.attributes["{DRIVER}"].cudaComputeCapability.compareTo(semver("8.0.0")) >= 0 && '
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{40960 + number}Mi")) >= 0'
    )
    request = dra.ExactDeviceRequest(
        DRIVER, (dra.DeviceSelector(dra.CELDeviceSelector(expression)),), "ExactCount", 1
    )
    devices = dra.DeviceClaim((dra.DeviceRequest("gpu", request),))
    return dra.ResourceClaim(ObjectMeta(namespace="default"), dra.ResourceClaimSpec(devices))
