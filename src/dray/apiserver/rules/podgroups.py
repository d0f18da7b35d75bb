"""A new PodGroup is protected: the controller `podgroups` lets it go when its pods have ended.

As plugin/pkg/admission/scheduling/podgroupprotection.
"""

from __future__ import annotations

from dray.api.features import Features
from dray.apiserver import admission
from dray.apiserver.admission import Action, Rule

FINALIZER = "scheduling.k8s.io/podgroup-protection"


class ProtectPodGroups(Rule):
    about = frozenset({"PodGroup"})

    def __init__(self, features: Features) -> None:
        self._is_enabled = features.generic_workload

    async def mutate(self, action: Action) -> None:
        if not self._is_enabled or action.operation != admission.CREATE or action.subresource:
            return
        assert action.new is not None
        finalizers = action.new["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
