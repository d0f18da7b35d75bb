"""PodDisruptionBudgets: whether pods may be evicted together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from dray.api.ids import ObjectKey
from dray.api.selectors import label_selectors
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.pods import Pod
from dray.scheduling.nodes import pod_affinity


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget: the pods it covers, and how many of them may be evicted."""

    name: str
    namespace: str
    selector: label_selectors.ParsedSelector
    allowed: int
    disrupted: Collection[str] = ()
    """The names of pods whose eviction is allowed and counted already."""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    @classmethod
    def of(cls, budget: PodDisruptionBudget) -> DisruptionBudget:
        selector = pod_affinity.selector_or_nothing(budget.spec.selector)
        metadata = budget.metadata
        allowed, disrupted = budget.status.disruptions_allowed, budget.status.disrupted_pods
        return cls(metadata.name, metadata.namespace, selector, allowed, disrupted)

    def allows(self, evicted: Sequence[Pod]) -> bool:
        return sum(map(self.covers, evicted)) <= self.allowed

    def covers(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return metadata.namespace == self.namespace and self.selector.matches(metadata.labels)

    def counts(self, pod: Pod) -> bool:
        """Return whether evicting the pod uses up the budget: not if that is allowed already."""
        return self.covers(pod) and pod.metadata.name not in self.disrupted
