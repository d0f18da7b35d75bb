"""Explain one pod: how far it has come, its claims, and changes that help.

Each change is tried: the pod is explained again as it would be after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api.semantics import pod_resources
from dray.api.types.dra import ResourceClaim
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.explain import claim_explanation
from dray.explain.claim_explanation import CHANGES_COMBINED, Explanation, Outcome
from dray.explain.equal_claims import ClaimExplanations
from dray.explain.pod import (
    node_eligibility,
    obstacles,
    pod_context,
    pod_progress,
    queue_wait,
)
from dray.explain.pod.obstacles import Obstacle
from dray.explain.pod.pod_changes import (
    Change,
    CopyObject,
    DropNodeAffinity,
    PodChange,
    ReferTo,
    RemoveTaint,
    RenameRequest,
    RenameResource,
    SelectNodes,
    TolerateNodeTaint,
    Uncordon,
    UseClaim,
)
from dray.explain.pod.pod_context import PodContext, claims_of
from dray.explain.pod.pod_progress import ExcludedNodes, PodProgress
from dray.explain.selectors import spelling
from dray.explain.suggestions.changes import WaitForClaim, WaitForClaims
from dray.scheduling.claims import extended_resources
from dray.scheduling.nodes import pod_requirements
from dray.scheduling.nodes.node_fit import FilterReason

FIXES_RETURNED = 3
_CANDIDATES_TRIED = 8
_CHANGES_COMBINED = 3
NEEDED_FOR_DEVICES = frozenset({"ResourceSlice", "DeviceClass", "Node"})
Excluded = dict[str, tuple[FilterReason, ...]]
_FITS = (Outcome.ALLOCATED, Outcome.FITS)


class PodFix(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that remove an obstacle of a pod."""

    changes: tuple[Change, ...]
    node: str = ""
    """A node on which the pod can run then; empty if it cannot yet."""
    next: PodProgress | None = None
    """The progress of the pod after the changes, if it still waits."""
    explanation: Explanation | None = None
    """The explanation of the claims after the changes, with what else would help."""


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    progress: PodProgress
    explanation: Explanation | None = None
    """The explanation of the pod's claims; None without claims, or if devices are not known."""
    fixes: tuple[PodFix, ...] = ()


def explain_pod(pod: Pod, context: PodContext, cluster: ClusterInventory) -> PodExplanation:
    """Explain a pod. Suggestions are tried on `cluster`; it is unchanged when this returns."""
    explained = _PodExplainer(context, cluster, CHANGES_COMBINED).explain(pod)
    if any(isinstance(item, obstacles.BehindOthers) for item in explained.progress.findings):
        explained = _in_line(pod, explained, context, cluster)
    fixes = tuple(_Fixes(context, cluster).find(pod, explained.progress))
    return msgspec.structs.replace(explained, fixes=fixes)


def _in_line(
    pod: Pod, explained: PodExplanation, context: PodContext, cluster: ClusterInventory
) -> PodExplanation:
    """Return the explanation with the wait of a pod that is not the first in line."""
    explanation = explained.explanation
    waits = queue_wait.wait_in_line(pod, context, cluster)
    if explanation is None or waits is None:
        return explained
    others = tuple(
        change
        for change in explanation.changes
        if not isinstance(change, WaitForClaim | WaitForClaims)
    )
    # The pods before it take the devices whose names the first change would give.
    consumers = {**explanation.consumers, **queue_wait.future_consumers(pod, context)}
    explanation = msgspec.structs.replace(
        explanation, changes=(waits, *others), consumers=consumers
    )
    return msgspec.structs.replace(explained, explanation=explanation)


class _PodExplainer:
    """Explains pods of one cluster, without fixes."""

    def __init__(self, context: PodContext, cluster: ClusterInventory, combine: int) -> None:
        self._context, self._cluster, self._combine = context, cluster, combine

    def explain(self, pod: Pod) -> PodExplanation:
        context = self._context
        claims = [*claims_of(pod, context).values(), *self._extended_claims(pod)]
        is_waiting = any(claim.status.allocation is None for claim in claims)
        # Nothing sensible can be said about devices that were not seen.
        is_blind = is_waiting and not NEEDED_FOR_DEVICES.isdisjoint(context.unread)
        if pod.spec.node_name or "Node" in context.unread:
            nodes = [pod.spec.node_name] if pod.spec.node_name else None
            explanation = self._explained(claims, nodes) if claims and not is_blind else None
            progress = pod_progress.inspect_pod(pod, context, explanation)
            return PodExplanation(progress=progress, explanation=explanation)
        checks = node_eligibility.node_checks(context)
        eligibility = checks.eligible_nodes(pod)
        explanation = None
        if claims and not is_blind:
            explanation = self._explained(claims, eligibility.eligible or None)
        excluded = eligibility.excluded
        if eligibility.eligible and (explanation is None or explanation.outcome in _FITS):
            excluded = {}
        elif eligibility.eligible:
            excluded = self._with_devices(claims, excluded)
        no_node = ExcludedNodes(tuple(checks.explain(pod, excluded)), not eligibility.eligible)
        progress = pod_progress.inspect_pod(pod, context, explanation, no_node)
        return PodExplanation(progress=progress, explanation=explanation)

    def _explained(
        self, claims: Sequence[ResourceClaim], nodes: Sequence[str] | None
    ) -> Explanation:
        results, consumers = self._context.results, pod_context.consumers_of(self._context)
        if results.explanations is None:
            results.explanations = ClaimExplanations()
        return results.explanations.explain(self._cluster, claims, nodes, self._combine, consumers)

    def _with_devices(self, claims: Sequence[ResourceClaim], excluded: Excluded) -> Excluded:
        """Return the excluded nodes without those that have no devices for the pod."""
        by_reasons: dict[tuple[FilterReason, ...], list[str]] = {}
        for name, reasons in excluded.items():
            by_reasons.setdefault(reasons, []).append(name)
        return {
            name: reasons
            for reasons, names in by_reasons.items()
            if claim_explanation.first_fit(self._cluster, claims, names)
            for name in names
        }

    def _extended_claims(self, pod: Pod) -> list[ResourceClaim]:
        """Return the claim that the scheduler would make for extended resources, if any."""
        context = self._context
        amounts = pod_requirements.requirements_of(pod).usage.amounts
        classes = extended_resources.Classes()
        classes.reload(context.classes)
        on_nodes = {name for node in context.nodes.values() for name in node.status.allocatable}
        provided = classes.provided(amounts) - on_nodes
        if not provided or not context.features.extended_resource or pod.spec.node_name:
            return []
        claim = extended_resources.claim_for(pod, provided, classes).claim
        metadata = msgspec.structs.replace(
            claim.metadata, name=f"{pod.metadata.name}{extended_resources.NAME_SUFFIX}".rstrip("-")
        )
        return [msgspec.structs.replace(claim, metadata=metadata)]


class _Fixes:
    """Finds changes of a pod, a node or the place of a claim that help."""

    def __init__(self, context: PodContext, cluster: ClusterInventory) -> None:
        self._context, self._cluster = context, cluster

    def find(
        self, pod: Pod, progress: PodProgress, before: tuple[Change, ...] = ()
    ) -> list[PodFix]:
        """Return the changes with which the pod can run; else those that bring it further."""
        tried: list[PodFix] = []
        for obstacle in progress.findings:
            candidates = self._candidates(pod, obstacle)
            for change in itertools.islice(candidates, _CANDIDATES_TRIED):
                fix = self._tried(pod, (*before, change), obstacle)
                tried += [fix] if fix else []
        complete = [fix for fix in tried if fix.next is None]
        return (complete or tried)[:FIXES_RETURNED]

    def _tried(self, pod: Pod, changes: tuple[Change, ...], obstacle: Obstacle) -> PodFix | None:
        """Return the last change with what follows, or None if the obstacle stays."""
        context, change = self._context, changes[-1]
        if isinstance(change, PodChange):
            pod = change.applied_to(pod)
        else:
            # The line has to be that of the cluster as it is.
            queue_wait.waiting_line(context)
            context = pod_context.with_change(context, change)
        after = _PodExplainer(context, self._cluster, 1).explain(pod)
        if obstacle in after.progress.findings:
            return None
        if after.progress.blocked is None or _only_awaits_scheduler(after.progress):
            node = after.explanation.node if after.explanation else ""
            return PodFix(changes=changes, node=node or pod.spec.node_name)
        if len(changes) < _CHANGES_COMBINED:
            further = _Fixes(context, self._cluster).find(pod, after.progress, changes)
            if further:
                return further[0]
        return PodFix(changes=changes, next=after.progress, explanation=after.explanation)

    def _candidates(self, pod: Pod, obstacle: Obstacle) -> Iterator[Change]:
        match obstacle:
            case obstacles.KindConfused(pod_claim=pod_claim, actual=actual, name=name):
                yield ReferTo(pod_claim=pod_claim, kind=actual, name=name)
            case obstacles.ObjectMissing(similar=similar) if similar:
                for item in pod.spec.resource_claims:
                    names = (item.resource_claim_name, item.resource_claim_template_name)
                    if obstacle.name in names:
                        yield ReferTo(pod_claim=item.name, kind=obstacle.kind, name=similar)
            case obstacles.ObjectMissing(elsewhere=(source, *_)):
                yield CopyObject(
                    kind=obstacle.kind,
                    name=obstacle.name,
                    source=source,
                    namespace=obstacle.namespace,
                )
            case obstacles.ClaimUnused(pod_claim=pod_claim):
                for container in pod.spec.containers[:1]:
                    yield UseClaim(pod_claim=pod_claim, container=container.name)
            case obstacles.RequestUnknown(similar=similar) if similar:
                yield RenameRequest(
                    container=obstacle.container,
                    pod_claim=obstacle.pod_claim,
                    request=obstacle.request,
                    replacement=similar,
                )
            case _:
                yield from self._for_nodes(pod, obstacle)

    def _for_nodes(self, pod: Pod, obstacle: Obstacle) -> Iterator[Change]:
        match obstacle:
            case obstacles.NodeSelectorUnmatched():
                yield from _other_labels(obstacle, self._context.nodes.values())
            case obstacles.NodeAffinityUnmatched():
                yield DropNodeAffinity()
            case obstacles.NodesCordoned():
                yield from (Uncordon(node=name) for name in self._with_devices(obstacle.nodes))
            case obstacles.NodesTainted():
                yield from self._for_taints(pod, obstacle)
            case obstacles.ResourceUnknown():
                yield from self._other_resources(obstacle)

    def _for_taints(self, pod: Pod, obstacle: obstacles.NodesTainted) -> Iterator[Change]:
        if obstacle.taint.startswith(node_eligibility.CONDITION_TAINTS):
            return
        for name in self._with_devices(obstacle.nodes)[:1]:
            taints = node_eligibility.untolerated(pod, self._context.nodes[name])
            for taint in taints:
                if node_eligibility.taint_text(taint) == obstacle.taint:
                    yield TolerateNodeTaint(key=taint.key, value=taint.value, effect=taint.effect)
                    yield RemoveTaint(node=name, key=taint.key, effect=taint.effect)

    def _with_devices(self, names: Sequence[str]) -> list[str]:
        """Return the nodes, those with devices of their own first."""
        published = {item.spec.node_name for item in self._context.slices}
        return sorted(names, key=lambda name: name not in published)

    def _other_resources(self, obstacle: obstacles.ResourceUnknown) -> Iterator[PodChange]:
        names = [obstacle.similar] if obstacle.similar else []
        vendor = obstacle.resource.partition("/")[0]
        for device_class in sorted(item.metadata.name for item in self._context.classes):
            if device_class == vendor or device_class.endswith(f".{vendor}"):
                names.append(f"{pod_resources.DEVICE_CLASS_PREFIX}{device_class}")
        for name in names:
            yield RenameResource(resource=obstacle.resource, replacement=name)


def _only_awaits_scheduler(progress: PodProgress) -> bool:
    """Return whether nothing but the scheduler's next attempt is missing."""
    awaited = (obstacles.NotLookedAt, obstacles.NodeRefused, obstacles.ClaimNotMade)
    blocked = progress.blocked
    return blocked is not None and all(isinstance(item, awaited) for item in blocked.obstacles)


def _other_labels(
    obstacle: obstacles.NodeSelectorUnmatched, nodes: Iterable[Node]
) -> Iterator[PodChange]:
    """Yield similar values of the label, then similar labels, then no label."""
    labels = [node.metadata.labels for node in nodes]
    wrong = [obstacle.label] if obstacle.label else list(obstacle.selector)
    for label in wrong:
        asked = obstacle.selector[label]
        values = sorted({own[label] for own in labels if label in own})
        ranked = spelling.similar(asked, values)
        for value in [*ranked, *(item for item in values if item not in ranked)]:
            if value != asked:
                yield SelectNodes(label=label, asked=asked, replacement=label, value=value)
        keys = {key for own in labels for key in own}
        having = sorted(key for key in keys for own in labels if own.get(key) == asked)
        for key in dict.fromkeys([*having, *spelling.similar(label, keys)]):
            for value in sorted({own[key] for own in labels if key in own}):
                if value == asked:
                    yield SelectNodes(label=label, asked=asked, replacement=key, value=value)
        yield SelectNodes(label=label, asked=asked)
