"""The metrics of one node's agent, under the kubelet's names where it has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from dray import telemetry
from dray.node.devices.preparation import ClaimRecord

ANY_DRIVER = "<any>"
"""As pkg/kubelet/cm/dra, claimsInUse: the claims of all drivers together."""

Values = Iterable[tuple[telemetry.Labels, float]]


def register(
    registry: telemetry.Registry,
    *,
    pods: Callable[[], int],
    drivers: Callable[[], Iterable[str]],
    claims: Callable[[], Collection[ClaimRecord]],
) -> None:
    """Register gauges, which are computed when the metrics are read."""
    registry.register(
        telemetry.Gauge("kubelet_running_pods", "Pods of the agent.", ask=lambda: [((), pods())]),
        telemetry.Gauge(
            "dra_resource_claims_in_use",
            "Claims that are prepared on this node, by driver.",
            ("driver_name",),
            lambda: _claims_in_use(claims()),
        ),
        telemetry.Gauge(
            "dray_node_drivers",
            "Drivers that are registered on this node.",
            ("driver",),
            lambda: [((name,), 1) for name in drivers()],
        ),
    )


def _claims_in_use(claims: Collection[ClaimRecord]) -> Values:
    counts = Counter(driver for claim in claims for driver in claim.drivers)
    yield (ANY_DRIVER,), len(claims)
    for driver, count in counts.items():
        yield (driver,), count
