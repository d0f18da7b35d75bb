"""The reasons why nodes cannot serve the claims, summed up over the nodes and ranked.

If a request cannot be served by itself, the filter that leaves too few devices is the reason. If
each request could be served but not all together, the allocator's own rejection is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

import msgspec

from dray.allocator.model import rejections
from dray.allocator.placement import FitResult, NoFit
from dray.api.types.dra import ResourceClaim
from dray.explain.survey.bounded_allocator import BoundedAllocator
from dray.explain.survey.filters import DeviceFilter
from dray.explain.survey.funnel import Funnel
from dray.explain.survey.node_survey import EXAMPLES_KEPT, Survey
from dray.explain.survey.unreachable_slices import UnreachableReason, UnreachableSlices


class Reason(msgspec.Struct, frozen=True):
    """A reason why some nodes cannot serve the claims.

    With `filter`, too few devices of a request pass it; with `rejection`, each request could be
    served, but not all of them; without either, there are no devices at all.
    """

    claim: int
    request: str
    nodes: int
    examples: tuple[str, ...]
    filter: DeviceFilter | None = None
    rejection: rejections.Rejection | None = None


def reasons(
    survey: Survey,
    allocator: BoundedAllocator,
    claims: Sequence[ResourceClaim],
    representatives: Mapping[str, str],
) -> tuple[Reason, ...]:
    """Return the reasons, those closest to success first.

    `representatives` maps each undecided node to the equivalent one that is searched instead.
    """
    counts = survey.counts
    shortfalls = sorted(counts, key=lambda shortfall: (-shortfall.depth, -counts[shortfall]))
    return (
        *_joint_reasons(
            (node, allocator.allocate_on(claims, representatives[node]))
            for node in survey.undecided_nodes
        ),
        *(
            Reason(
                shortfall.claim,
                shortfall.request,
                survey.counts[shortfall],
                tuple(survey.shortfalls[shortfall]),
                shortfall.filter,
            )
            for shortfall in shortfalls
        ),
    )


def _joint_reasons(results: Iterable[tuple[str, FitResult]]) -> Iterator[Reason]:
    """Yield the reasons of nodes that could serve each request but not all together."""
    nodes_by_kind: dict[Hashable, list[str]] = {}
    closest: dict[Hashable, rejections.Rejection] = {}
    for node, result in results:
        if not isinstance(result, NoFit):
            continue
        key = _kind(result.reason)
        nodes_by_kind.setdefault(key, []).append(node)
        best = closest.get(key)
        if best is None or _progress(result.reason) > _progress(best):
            closest[key] = result.reason
    for key, nodes in sorted(nodes_by_kind.items(), key=lambda entry: -len(entry[1])):
        rejection = closest[key]
        claim, request = -1, ""
        if isinstance(rejection, rejections.RequestRejection):
            claim, request = rejection.claim, rejection.request
        examples = tuple(nodes[:EXAMPLES_KEPT])
        yield Reason(claim, request, len(nodes), examples, rejection=rejection)


def _kind(rejection: rejections.Rejection) -> Hashable:
    """Return a key that is equal for the same rejection on different nodes."""
    last = rejection.last if isinstance(rejection, rejections.NoCombination) else None
    names = [getattr(rejection, name, None) for name in ("claim", "request", "attribute")]
    return type(rejection), type(last), *names


def _progress(rejection: rejections.Rejection) -> int:
    """Return how much of what is needed a rejection reports as available."""
    match rejection:
        case rejections.NoCommonValue():
            return rejection.best
        case rejections.TooFewValues():
            return rejection.values
        case rejections.TooFewDevices() | rejections.TooFewDevicesCombined():
            return rejection.free
    return 0


def blocking_feature_gates(
    funnels: Iterable[Funnel], unreachable: Iterable[UnreachableSlices], reasons: Iterable[Reason]
) -> Iterator[str]:
    """Yield the feature gates that exclude devices."""
    for reason in reasons:
        rejection = reason.rejection
        if isinstance(rejection, rejections.NoCommonValue) and not rejection.best_value:
            yield "DRAListTypeAttributes"
    for slices in unreachable:
        if slices.cause is UnreachableReason.GATE_OFF:
            yield slices.detail
    for funnel in funnels:
        for stage in funnel.stages:
            match stage.rejection:
                case rejections.BindingConditionsDisabled():
                    yield "DRADeviceBindingConditions"
                case rejections.NodeOperationsDisabled(node_lacks_feature=False):
                    yield "DRAOptionalNodeOperations"
                case rejections.CountersDisabled():
                    yield "DRAPartitionableDevices"
                case rejections.AttributeIncomparable():
                    yield "DRAListTypeAttributes"
