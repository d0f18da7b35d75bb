"""PodDisruptionBudgets: whether pods may be evicted together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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

    @classmethod
    def of(cls, budget: PodDisruptionBudget) -> DisruptionBudget:
        selector = pod_affinity.selector_or_nothing(budget.spec.selector)
        metadata = budget.metadata
        return cls(metadata.name, metadata.namespace, selector, budget.status.disruptions_allowed)

    def allows(self, evicted: Sequence[Pod]) -> bool:
        return sum(map(self._covers, evicted)) <= self.allowed

    def _covers(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return metadata.namespace == self.namespace and self.selector.matches(metadata.labels)
