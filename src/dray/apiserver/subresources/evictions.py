"""pods/eviction: delete a pod, if its disruption budget allows that.

As pkg/registry/core/pod/storage, EvictionREST.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.http_messages import Response
from dray.api.ids import GroupResource
from dray.api.kinds import GroupVersionKind
from dray.api.selectors import label_selectors
from dray.api.semantics.conditions import find_condition
from dray.api.types.core import PodDisruptionBudget
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.admission_chain import AdmissionChain
from dray.apiserver.request import write_options
from dray.apiserver.request.call import Call
from dray.apiserver.storage import codec, store_keys
from dray.apiserver.storage.lookup import Found, Lookup
from dray.apiserver.subresources import common
from dray.apiserver.verbs import deletion, reads, writes
from dray.apiserver.verbs.deletion import DeleteOptions, Deleter
from dray.store.store import GuardFailed, Put, Store

EVICTION = GroupVersionKind("policy", "v1", "Eviction")
MAX_UNCONFIRMED = 2000
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."
CAUSE = "DisruptionBudget"

_BUDGET_GVK = store_keys.storage_gvk(kinds.POD_DISRUPTION_BUDGET)
_BUDGET_RESOURCE = GroupResource("policy", "poddisruptionbudget")


@dataclass(frozen=True, slots=True)
class Evictions:
    store: Store
    chain: AdmissionChain
    deleter: Deleter

    async def create(self, call: Call) -> Response:
        create_options = write_options.parse(call.request, "CreateOptions")
        eviction = writes.read_form(call, EVICTION, create_options)
        if (eviction.get("metadata") or {}).get("name") != call.info.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        options = _delete_options(call, eviction)
        admission = common.creation(call, eviction, create_options, dry_run=options.dry_run)
        await self.chain.mutate(admission)
        await self.chain.validate(admission)
        about_pod = replace(call, info=replace(call.info, verb="delete", subresource=""))
        await self._evict(about_pod, options)
        return common.success(call)

    async def _evict(self, call: Call, options: DeleteOptions) -> None:
        """Evict; repeat if the pod has changed meanwhile, unless the client named a revision."""
        for _ in range(common.ATTEMPTS):
            try:
                await self._attempt(call, options)
                return
            except errors.Conflict:
                if options.resource_version or options.uid:
                    raise
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)

    async def _attempt(self, call: Call, options: DeleteOptions) -> None:
        pod = (await reads.stored_object(call, self.store)).document
        if _is_over(pod):
            await self._delete(call, options)
            return
        if _phase(pod) == "Pending":
            await self._delete(call, _only_as(pod, options))
            return
        budget = await self._budget_of(pod)
        if budget is None:
            await self._delete(call, options)
        elif _may_go_unready(pod, budget.value):
            await self._delete_unready(call, options, pod, budget.value)
        else:
            await self._spend(call, budget, options.dry_run)
            await self._delete(call, options)

    async def _budgets(self, namespace: str) -> Sequence[Found[PodDisruptionBudget]]:
        lookup = Lookup(self.store, kinds.POD_DISRUPTION_BUDGET, PodDisruptionBudget)
        return await lookup.all(namespace)

    async def _budget_of(self, pod: JsonObject) -> Found[PodDisruptionBudget] | None:
        budgets = await self._budgets(pod["metadata"]["namespace"])
        covering = [budget for budget in budgets if _covers(budget.value, pod)]
        if len(covering) > 1:
            raise errors.InternalError(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support.",
                reason="",
            )
        return covering[0] if covering else None

    async def _spend(self, call: Call, budget: Found[PodDisruptionBudget], dry_run: bool) -> None:
        """Record the pod in the budget's status, so that the next eviction counts it."""
        name = budget.value.metadata.name
        for _ in range(common.ATTEMPTS):
            _check_allowed(budget.value)
            if dry_run:
                return
            try:
                await common.commit(self.store, _spent(call, budget))
                return
            except GuardFailed:
                budgets = await self._budgets(call.namespace)
                current = [stored for stored in budgets if stored.value.metadata.name == name]
                if not current:
                    return
                budget = current[0]
        raise errors.timeout(f'couldn\'t update PodDisruptionBudget "{name}" due to conflicts', 10)

    async def _delete_unready(
        self, call: Call, options: DeleteOptions, pod: JsonObject, budget: PodDisruptionBudget
    ) -> None:
        """Delete the pod if it is still unready."""
        try:
            await self._delete(call, _only_as(pod, options))
        except errors.Conflict as conflict:
            if options.resource_version:
                raise
            raise _too_many(budget.metadata.name) from conflict

    async def _delete(self, call: Call, options: DeleteOptions) -> None:
        if not options.dry_run:
            revision = await self._mark_disrupted(call, options)
            if options.resource_version:
                options = options._replace(resource_version=str(revision))
        # Policies have decided about the eviction; Kubernetes asks them no more, either.
        await self.deleter.delete_one(call, options, is_decided=True)

    async def _mark_disrupted(self, call: Call, options: DeleteOptions) -> int:
        """Add the condition DisruptionTarget before the pod is deleted."""
        for _ in range(common.ATTEMPTS):
            entry, pod = await reads.stored_object(call, self.store)
            deletion.check_preconditions(call, pod, options)
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            common.set_condition(pod, condition, call.now, times=("lastProbeTime",))
            with contextlib.suppress(GuardFailed):
                return await common.commit(self.store, common.put(entry, pod))
        raise errors.conflict(store_keys.group_resource(call.kind), call.info.name)


def _delete_options(call: Call, eviction: JsonObject) -> DeleteOptions:
    """Return the options of the eviction; the query may request a dry run, too."""
    given = eviction.get("deleteOptions") or {}
    headers = {**call.request.headers, "content-type": "application/json"}
    body = codec.encode(given) if given else b""
    return deletion.parse_options(replace(call.request, headers=headers, body=body))


def _only_as(pod: JsonObject, options: DeleteOptions) -> DeleteOptions:
    """Return options with the revision of the pod, unless the client named one."""
    if options.resource_version:
        return options
    return options._replace(resource_version=pod["metadata"]["resourceVersion"])


def _is_over(pod: JsonObject) -> bool:
    """Return whether the pod has ended or is being deleted: no disruption."""
    return bool(pod["metadata"].get("deletionTimestamp")) or _phase(pod) in ("Succeeded", "Failed")


def _phase(pod: JsonObject) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def _covers(budget: PodDisruptionBudget, pod: JsonObject) -> bool:
    try:
        selector = label_selectors.label_selector(budget.spec.selector)
    except label_selectors.SelectorError:
        return False
    return selector.matches(pod["metadata"].get("labels") or {})


def _may_go_unready(pod: JsonObject, budget: PodDisruptionBudget) -> bool:
    """Return whether an unready pod may be deleted without using the budget."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if ("Ready", "True") in ((condition["type"], condition["status"]) for condition in conditions):
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    status = budget.status
    return status.current_healthy >= status.desired_healthy > 0


def _check_allowed(budget: PodDisruptionBudget) -> None:
    name, status = budget.metadata.name, budget.status
    if status.observed_generation < budget.metadata.generation:
        raise _too_many(name)
    if status.disruptions_allowed < 0:
        why = "pdb disruptions allowed is negative"
        raise _forbidden(name, why, why)
    if len(status.disrupted_pods) > MAX_UNCONFIRMED:
        raise _forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        )
    if status.disruptions_allowed == 0:
        cause = errors.Cause(reason=CAUSE, message=_why_none(budget))
        raise errors.TooManyRequests(VIOLATION, errors.Details(causes=(cause,)))


def _why_none(budget: PodDisruptionBudget) -> str:
    name, status = budget.metadata.name, budget.status
    condition = find_condition(status.conditions, "DisruptionAllowed")
    if condition and (condition.status != "False" or not condition.message):
        condition = None
    if condition and condition.reason == "SyncFailed":
        return (
            f"The disruption budget {name} does not allow evicting pods currently because it "
            f"failed sync: {condition.message}"
        )
    if status.current_healthy <= status.desired_healthy:
        return (
            f"The disruption budget {name} needs {status.desired_healthy} healthy pods and has "
            f"{status.current_healthy} currently"
        )
    refusal = f"The disruption budget {name} does not allow evicting pods currently"
    return f"{refusal} ({condition.reason}): {condition.message}" if condition else refusal


def _too_many(name: str) -> errors.TooManyRequests:
    message = f"The disruption budget {name} is still being processed by the server."
    cause = errors.Cause(reason=CAUSE, message=message)
    return errors.TooManyRequests(
        VIOLATION, errors.Details(causes=(cause,), retry_after_seconds=10)
    )


def _forbidden(name: str, why: str, detail: str) -> errors.Forbidden:
    refusal = errors.forbidden(_BUDGET_RESOURCE, name, why)
    message = f"The disruption budget {name} does not allow evicting pods currently: {detail}"
    details = errors.Details(
        name, "policy", "poddisruptionbudget", causes=(errors.Cause(reason=CAUSE, message=message),)
    )
    return errors.Forbidden(refusal.message, details)


def _spent(call: Call, budget: Found[PodDisruptionBudget]) -> Put:
    document = codec.from_stored(budget.entry, _BUDGET_GVK)
    status = document["status"]
    status["disruptionsAllowed"] -= 1
    if status["disruptionsAllowed"] == 0:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        common.set_condition(document, condition, call.now)
    status.setdefault("disruptedPods", {})[call.info.name] = gotime.write(call.now)
    return common.put(budget.entry, document)
