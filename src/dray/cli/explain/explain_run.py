"""One call of `dray explain`: what it reads, and what it explains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import features, kinds
from dray.api.types import dra
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import ObjectNotFound
from dray.cli.explain import documents, preemption, targets
from dray.cli.explain.documents import DEFAULT_NAMESPACE, Documents
from dray.cli.explain.names import ObjectName
from dray.cli.explain.output import Explained, ExplainedGroup
from dray.cli.explain.preemption import PreemptionAnswer
from dray.cli.explain.targets import ExplainTarget, TargetGroup
from dray.cli.inputs import cluster_objects, manifests, pod_contexts
from dray.cli.inputs.cluster_objects import ClusterObjects
from dray.cli.session import progress
from dray.cli.session.connection import Target
from dray.client.api_client import ObjectSelection
from dray.client.kubeconfig import KubeconfigError
from dray.explain import claim_explanation as engine
from dray.explain.pod import pod_context, pod_explanation
from dray.explain.pod.pod_context import OTHER_NAMESPACES, PodContext
from dray.explain.pod.pod_explanation import NEEDED_FOR_DEVICES
from dray.explain.preemption import pod_preemption
from dray.explain.preemption.preemption_explainer import PreemptionExplainer

if TYPE_CHECKING:
    from dray.cli.lint.findings import Finding


class ExplainRun:
    """One call of the command: what it reads, and what it explains.

    `texts` are manifests with the names of their files. `note` receives what could not be read.
    """

    def __init__(
        self,
        target: Target,
        names: Sequence[ObjectName],
        texts: Sequence[tuple[str, str]],
        against: str,
        note: Callable[[str], None],
    ) -> None:
        self._target, self._names, self._against = target, names, against
        self._texts, self._note = texts, note
        self._documents: list[JsonObject] = []
        self.source = Documents(target, against, ())

    def explained(self, *, is_whole: bool, feature_gates: str = "") -> list[ExplainedGroup]:
        objects, groups = self._read(feature_gates, is_whole=is_whole)
        with progress.shown("Looking for devices"):
            context = pod_contexts.of_all(objects)
            fleet = pod_context.inventory_of(context)
            preempting = None
            if pod_preemption.is_explained(objects.features):
                preempting = preemption.explainer(objects, context)
            return [
                ExplainedGroup(
                    group.title,
                    [
                        _explained(item, fleet, objects, context, preempting)
                        for item in group.targets
                    ],
                    group.is_single,
                )
                for group in groups
            ]

    def if_preempted(self, feature_gates: str = "") -> list[PreemptionAnswer]:
        """Return what would be evicted for the pods, whether or not the cluster does so."""
        preemption.check_names(self._names)
        objects, groups = self._read(feature_gates, is_whole=False, is_preempting=True)
        with progress.shown("Looking for pods to evict"):
            return preemption.answers(groups, objects, pod_contexts.of_all(objects))

    def _read(
        self, feature_gates: str, *, is_whole: bool, is_preempting: bool = False
    ) -> tuple[ClusterObjects, list[TargetGroup]]:
        """Return the objects to evaluate against, and what to explain."""
        objects, own = self._load()
        if feature_gates:
            objects = dataclasses.replace(
                objects, stated=features.parse(feature_gates, objects.features)
            )
        if is_preempting or pod_preemption.is_explained(objects.features):
            objects = preemption.with_further_kinds(objects, self._against, self._target)
        self.source = Documents(self._target, self._against, self._documents)
        if limit := _limit(objects):
            self._note(limit)
        groups = list(self._groups(objects, own, is_whole=is_whole))
        if not any(group.targets for group in groups) and not is_whole:
            where = ", ".join(name for name, _ in self._texts) or groups[0].title
            raise ObjectNotFound(f"there is no pod, claim or template in {where}")
        return objects, groups

    def invalid(self, feature_gates: str = "") -> list[Finding]:
        """Return what is wrong, if the API server would refuse an object of the files."""
        if not self._texts:
            return []
        # Late: the rules of lint take long to import.
        from dray.cli.lint import file_checks

        return file_checks.errors(self._texts, features.parse(feature_gates))

    def _load(self) -> tuple[ClusterObjects, ClusterObjects]:
        """Return the objects to evaluate against, and the objects of the files.

        Files with slices, such as dumps and snapshots, need nothing else.
        """
        own = cluster_objects.from_texts(self._texts)
        for name, text in self._texts:
            found = list(manifests.documents(name, text))
            self._documents += found
            for document in documents.pods_in(found):
                own.add(cluster_objects.decode(document, name))
        if own.of(dra.ResourceSlice) and not self._against:
            return own, own
        loaded = cluster_objects.load(self._against, self._target, self._events())
        return loaded.merged(own), own

    def _events(self) -> ObjectSelection | None:
        """Return a selection of the events about the pods to explain, or None."""
        if self._texts and not self._names:
            return None
        fields = "involvedObject.kind=Pod"
        if len(self._names) == 1 and self._names[0].kind == kinds.POD:
            fields += f",involvedObject.name={self._names[0].name}"
        return ObjectSelection(field_selector=fields)

    def _groups(
        self, objects: ClusterObjects, own: ClusterObjects, *, is_whole: bool
    ) -> Iterator[TargetGroup]:
        if is_whole:
            yield targets.in_namespace(objects, self._target.namespace)
            return
        yield from targets.named(self._names, objects, self._namespace(), self.source)
        for target in targets.in_files(own, self._documents):
            yield TargetGroup(target.title, [target])

    def _namespace(self) -> str:
        """Return the namespace of names on the command line; "default" without a kubeconfig."""
        if self._target.namespace:
            return self._target.namespace
        try:
            return DEFAULT_NAMESPACE if self._against else self._target.connect().namespace
        except KubeconfigError:
            return DEFAULT_NAMESPACE


def _limit(objects: ClusterObjects) -> str:
    """Return in one line what could not be read, or ""; the explanations say what follows."""
    kinds_unread = sorted(objects.unread)
    kinds_unread += [f"{kind}{OTHER_NAMESPACES}" for kind in sorted(objects.partly_read)]
    if not kinds_unread:
        return ""
    message = next(iter({**objects.unread, **objects.partly_read}.values()))
    return f"You may not read {', '.join(kinds_unread)} ({message})."


def _explained(
    target: ExplainTarget,
    fleet: ClusterInventory,
    objects: ClusterObjects,
    shared: PodContext,
    preempting: PreemptionExplainer | None,
) -> Explained:
    if target.pod is not None:
        context = pod_contexts.of(target.pod, objects, shared)
        explained = pod_explanation.explain_pod(target.pod, context, fleet)
        if preempting is not None:
            evicting = preempting.explain(target.pod)
        else:
            evicting = pod_preemption.under_way(target.pod, context.pods, is_on=False)
        return Explained(target, explained, None, evicting)
    # Nothing sensible can be said about devices that were not seen.
    is_waiting = any(claim.status.allocation is None for claim in target.claims)
    if is_waiting and not NEEDED_FOR_DEVICES.isdisjoint(objects.unread):
        return Explained(target, None, None)
    explanation = engine.explain(fleet, target.claims, new_share_id=lambda: "new")
    return Explained(target, None, explanation)
