"""New nodes are not ready: no pod lands on one before a controller has seen that it is.

As plugin/pkg/admission/nodetaint, TaintNodesByCondition.
"""

from __future__ import annotations

from dray.apiserver import admission
from dray.apiserver.admission import Action, Rule

NOT_READY = "node.kubernetes.io/not-ready"
NO_SCHEDULE = "NoSchedule"


class TaintNewNodes(Rule):
    about = frozenset({"Node"})

    async def mutate(self, action: Action) -> None:
        if action.operation != admission.CREATE or not action.is_about("", "Node"):
            return
        assert action.new is not None
        spec = action.new.setdefault("spec", {})
        taints = spec.get("taints") or []
        known = {(taint.get("key"), taint.get("effect")) for taint in taints}
        if (NOT_READY, NO_SCHEDULE) not in known:
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": NO_SCHEDULE}]
