"""`dray bench preemption`: the time to find victims in a fleet full of less important pods.

The scheduling decision alone, in this process: eight GPUs a node, each with a pod of priority 0.
Every run asks for the victims of other pods than the one before. Nobody is evicted.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from dray.api import features as gates
from dray.api.features import Features
from dray.api.types import dra
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.api.types.pods import (
    Pod,
    PodResourceClaim,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
)
from dray.api.types.workloads import (
    GangSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from dray.bench import measured_process
from dray.scheduling.claims.extended_resources import EXACT_COUNT
from dray.scheduling.decision import Decider
from dray.scheduling.state import SchedulingState
from dray.scheduling.unschedulable import Unschedulable

CLASS = DRIVER = "gpu.example.com"
NAMESPACE = "default"
GPUS = 8
HIGH = 1000
_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_STARTED = "2025-12-31T00:00:00Z"

Say = Callable[[str], None]


class PreemptionScale(msgspec.Struct, frozen=True):
    nodes: int = 1000
    gang: int = 64
    """Pods of a gang, with one GPU each."""
    runs: int = 9


class Report(msgspec.Struct, kw_only=True):
    """The median of the runs, and their CPU time."""

    nodes: int
    gang: int
    pod_victims: int
    pod_ms: float
    pod_cpu_ms: float
    first_pod_ms: float
    first_pod_cpu_ms: float
    """The first decision of a scheduler builds what later ones have in common."""
    gang_victims: int
    gang_s: float
    gang_cpu_s: float


def run(scale: PreemptionScale, say: Say = lambda _: None) -> Report:
    say(f"filling {scale.nodes} nodes")
    state = _full_fleet(scale.nodes)
    decider = Decider(state)
    say("asking for the victims of pods")
    with measured_process.settled():
        first, *pods = [
            _asked(state, decider, _pods(state, f"pod-{number}", 1))
            for number in range(scale.runs + 1)
        ]
    say("asking for the victims of gangs")
    with measured_process.settled():
        gangs = [
            _asked(state, decider, _pods(state, f"gang-{number}", scale.gang, is_gang=True))
            for number in range(scale.runs)
        ]
    return Report(
        nodes=scale.nodes,
        gang=scale.gang,
        pod_victims=pods[0].victims,
        pod_ms=1000 * median(taken.seconds for taken in pods),
        pod_cpu_ms=1000 * median(taken.cpu_seconds for taken in pods),
        first_pod_ms=1000 * first.seconds,
        first_pod_cpu_ms=1000 * first.cpu_seconds,
        gang_victims=gangs[0].victims,
        gang_s=median(taken.seconds for taken in gangs),
        gang_cpu_s=median(taken.cpu_seconds for taken in gangs),
    )


class _Taken(msgspec.Struct, frozen=True):
    victims: int
    seconds: float
    cpu_seconds: float


def _asked(state: SchedulingState, decider: Decider, pods: Sequence[Pod]) -> _Taken:
    """Decide about pods, and let nothing of the decision stay."""
    began, cpu = time.perf_counter(), time.process_time()
    decision = decider.decide(pods, _NOW)[0]
    taken = time.perf_counter() - began, time.process_time() - cpu
    for pod in pods:
        state.drop_pod(pod.metadata.key)
    plan = decision.preemption if isinstance(decision, Unschedulable) else None
    if plan is None:
        raise RuntimeError(f"no victims were found for {pods[0].metadata.key}")
    return _Taken(len(plan.victims), *taken)


def _features() -> Features:
    switched_on = ("DrayPreemption", "DrayGangSearch", "GenericWorkload")
    return gates.with_gates(gates.DEFAULT, dict.fromkeys(switched_on, True))


def _full_fleet(nodes: int) -> SchedulingState:
    state = SchedulingState(_features())
    state.put(dra.DeviceClass(ObjectMeta(name=CLASS)))
    for number in range(nodes):
        name = f"node-{number}"
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110"}
        status = NodeStatus(allocatable=allocatable)
        labels = {"kubernetes.io/hostname": name}
        state.put(Node(ObjectMeta(name=name, labels=labels), status=status))
        pool = dra.ResourcePool(name, generation=1, resource_slice_count=1)
        devices = tuple(dra.Device(f"gpu-{gpu}") for gpu in range(GPUS))
        spec = dra.ResourceSliceSpec(DRIVER, pool, node_name=name, devices=devices)
        state.put(dra.ResourceSlice(ObjectMeta(name=name), spec))
        for gpu in range(GPUS):
            _run(state, name, gpu)
    return state


def _run(state: SchedulingState, node: str, gpu: int) -> None:
    """Let a pod of priority 0 use a GPU."""
    name = f"{node}-{gpu}"
    result = dra.DeviceRequestAllocationResult("gpu", DRIVER, node, f"gpu-{gpu}")
    allocation = dra.AllocationResult(dra.DeviceAllocationResult((result,)))
    user = dra.ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}")
    status = dra.ResourceClaimStatus(allocation=allocation, reserved_for=(user,))
    state.put(msgspec.structs.replace(_claim(name), status=status))
    pod = _pod(name, 0)
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    state.put(msgspec.structs.replace(pod, spec=spec, status=PodStatus(start_time=_STARTED)))


def _pods(state: SchedulingState, name: str, count: int, *, is_gang: bool = False) -> list[Pod]:
    """Return pods that wait, with claims of their own."""
    names = [f"{name}-{number}" for number in range(count)]
    for pod_name in names:
        state.put(_claim(pod_name))
    if is_gang:
        policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(count))
        state.put(PodGroup(_metadata(name), PodGroupSpec(scheduling_policy=policy, priority=HIGH)))
    return [_pod(pod_name, HIGH, name if is_gang else "") for pod_name in names]


def _metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=NAMESPACE, uid=f"uid-{name}")


def _claim(name: str) -> dra.ResourceClaim:
    exactly = dra.ExactDeviceRequest(CLASS, allocation_mode=EXACT_COUNT, count=1)
    request = dra.DeviceRequest("gpu", exactly=exactly)
    return dra.ResourceClaim(
        _metadata(name), dra.ResourceClaimSpec(devices=dra.DeviceClaim((request,)))
    )


def _pod(name: str, priority: int, group: str = "") -> Pod:
    claims = (PodResourceClaim("gpu", resource_claim_name=name),)
    scheduling_group = PodSchedulingGroup(group) if group else None
    spec = PodSpec(priority=priority, resource_claims=claims, scheduling_group=scheduling_group)
    return Pod(_metadata(name), spec)
