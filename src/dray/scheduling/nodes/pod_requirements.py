"""What a pod needs of a node, worked out once for all pods that need the same.

The pods of one Deployment have equal needs; `needs_of` gives them the same `Needs`, so whatever is
known about nodes can be kept per `Needs`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from dray.api.formats import quantity
from dray.api.formats.quantity import Quantity
from dray.api.selectors import label_selectors, node_selectors
from dray.api.semantics import pod_resources
from dray.api.types.containers import Container
from dray.api.types.meta import NodeSelector
from dray.api.types.nodes import Taint
from dray.api.types.pods import NodeAffinity, Pod, PreferredSchedulingTerm, Toleration

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
ANY_ADDRESS = "0.0.0.0"

_NEEDS_LIMIT = 4096
_ASSUMED = pod_resources.ResourceCountOptions(
    assumed={"cpu": quantity.parse("100m"), "memory": quantity.parse("200Mi")}
)
"""What scoring takes a container to request that does not say (scheduler/util/pod_resources.go)."""

Amounts = Mapping[str, int]
"""Whole units by resource; cpu in thousandths."""


class Port(NamedTuple):
    """A port of the node itself."""

    address: str
    protocol: str
    number: int

    def clashes_with(self, other: Port) -> bool:
        same = (self.protocol, self.number) == (other.protocol, other.number)
        return same and (
            self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        )


class PodUsage(NamedTuple):
    """What a pod takes of the node it is on."""

    amounts: Amounts
    scored_cpu: int
    scored_memory: int
    ports: tuple[Port, ...] = ()


class PodRequirements:
    """The demands of pods that are alike. Compared by identity: equal demands share one."""

    __slots__ = ("charge", "names", "preference", "selects", "tolerations")

    def __init__(self, pod: Pod) -> None:
        self.charge = charge_of(pod)
        self.tolerations = pod.spec.tolerations
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        affinity = affinity or NodeAffinity()
        required = affinity.required_during_scheduling_ignored_during_execution
        self.selects = _node_test(pod.spec.node_selector, required)
        """Whether a node is selected; None where all are. May raise SelectorError."""
        self.names = named_nodes(required)
        """The only nodes that can be selected, where they are named."""
        self.preference = _preference(affinity.preferred_during_scheduling_ignored_during_execution)
        """The weight of the preferred terms that a node matches; None where there are none."""

    def untolerated(self, taints: Iterable[Taint], *effects: str) -> int:
        """How many taints with these effects the pod does not tolerate."""
        return sum(
            taint.effect in effects and not tolerates(self.tolerations, taint) for taint in taints
        )


def needs_of(pod: Pod) -> PodRequirements:
    key = _signature(pod)
    known = _known.get(key)
    if known is None:
        if len(_known) >= _NEEDS_LIMIT:
            _known.clear()
        known = _known[key] = PodRequirements(pod)
    return known


_known: dict[bytes, PodRequirements] = {}
_encode = msgspec.msgpack.Encoder().encode


def _signature(pod: Pod) -> bytes:
    spec = pod.spec
    return _encode(
        (
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.overhead,
            spec.resources,
            spec.host_network,
            [(container.resources.requests, container.ports) for container in spec.containers],
            [
                (container.resources.requests, container.restart_policy, container.ports)
                for container in spec.init_containers
            ],
        )
    )


def charge_of(
    pod: Pod, counting: pod_resources.ResourceCountOptions = pod_resources.AS_WRITTEN
) -> PodUsage:
    scored = pod_resources.pod_requests(pod, counting._replace(assumed=_ASSUMED.assumed))
    return PodUsage(
        whole(pod_resources.pod_requests(pod, counting)),
        scored.get("cpu", quantity.ZERO).milli_value(),
        scored.get("memory", quantity.ZERO).value(),
        tuple(_host_ports(pod)),
    )


def whole(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    return {name: whole_amount(name, amount) for name, amount in amounts.items() if amount.nano}


def whole_amount(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == "cpu" else amount.value()


@functools.lru_cache(maxsize=1 << 12)
def whole_text(name: str, text: str) -> int:
    return whole_amount(name, quantity.parse(text))


def _host_ports(pod: Pod) -> Iterable[Port]:
    sidecars = (each for each in pod.spec.init_containers if pod_resources.is_sidecar(each))
    containers: Iterable[Container] = (*sidecars, *pod.spec.containers)
    for container in containers:
        for port in container.ports:
            if port.host_port:
                address, protocol = port.host_ip or ANY_ADDRESS, port.protocol or "TCP"
                yield Port(address, protocol, port.host_port)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def _node_test(
    labels: Mapping[str, str], required: NodeSelector | None
) -> node_selectors.NodeTest | None:
    if not labels and required is None:
        return None
    return node_selectors.compile_required_affinity(labels, required)


def _preference(
    terms: tuple[PreferredSchedulingTerm, ...],
) -> Callable[[label_selectors.Labels, str], int] | None:
    try:
        return node_selectors.compile_preferred_affinity(terms) if terms else None
    except label_selectors.SelectorError:
        return None


def named_nodes(required: NodeSelector | None) -> frozenset[str] | None:
    """The nodes that a selector names, if each of its terms names some."""
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        fields = [
            set(field.values)
            for field in term.match_fields
            if (field.key, field.operator) == ("metadata.name", "In")
        ]
        if not fields:
            return None
        names |= set.intersection(*fields)
    return frozenset(names)
