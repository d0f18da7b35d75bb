"""The limits that a pod's spec sets, as numbers that the kernel takes."""

from __future__ import annotations

from typing import Final

from dray.api.formats import quantity
from dray.api.semantics import pod_resources
from dray.api.types.containers import Container
from dray.api.types.pods import Pod
from dray.node.runtimes.interface import ResourceLimits

CPU: Final = "cpu"
MEMORY: Final = "memory"
_NANO: Final = 10**9


def resource_limits(container: Container) -> ResourceLimits:
    """Return the limits of one container. Zero is no limit, as in a kubelet."""
    limits = pod_resources.parse_amounts(container.resources.limits)
    requests = pod_resources.parse_amounts(container.resources.requests)
    return ResourceLimits(
        cpus=_cpus(limits),
        cpu_request=_cpus(requests) or _cpus(limits),
        memory_bytes=_memory_bytes(limits),
    )


def pod_limits(pod: Pod, max_pids: int) -> ResourceLimits:
    """Return the limits of all containers of a pod together.

    Without a value for the pod as a whole, a resource is limited to the sum over the containers,
    and only if each of them has a limit.
    """
    limits = pod_resources.pod_limits(pod)
    for name in (CPU, MEMORY):
        if not _is_limited(pod, name):
            limits.pop(name, None)
    return ResourceLimits(
        cpus=_cpus(limits),
        cpu_request=_cpus(pod_resources.pod_requests(pod)),
        memory_bytes=_memory_bytes(limits),
        pids=max_pids or None,
    )


def _is_limited(pod: Pod, resource: str) -> bool:
    if pod.spec.resources is not None and resource in pod.spec.resources.limits:
        return True
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return all(
        quantity.parse(container.resources.limits.get(resource, "0")).nano > 0
        for container in containers
    )


def _cpus(amounts: pod_resources.Amounts) -> float | None:
    amount = amounts.get(CPU, quantity.ZERO)
    return amount.nano / _NANO if amount.nano > 0 else None


def _memory_bytes(amounts: pod_resources.Amounts) -> int | None:
    amount = amounts.get(MEMORY, quantity.ZERO)
    # Rounded up: a small limit must not become none.
    return -(-amount.nano // _NANO) if amount.nano > 0 else None
