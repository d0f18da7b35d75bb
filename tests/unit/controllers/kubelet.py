"""Scheduler and node agent in a few lines: pods get a node, run, end and go away."""

from __future__ import annotations

from typing import Any

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.ids import ObjectKey
from dray.api.semantics import pod_status
from dray.api.types.pods import Pod
from dray.controllers.loops import Context, ObjectLoop

ENDS_AS = "test.dray.dev/ends-as"
"""Annotation: the phase in which the pod ends right after it started."""
NEVER_READY = "test.dray.dev/never-ready"


class Kubelet(ObjectLoop):
    def __init__(self, context: Context) -> None:
        super().__init__("kubelet", context, context.caches.pods)
        self._pods = context.caches.pods

    async def reconcile(self, key: ObjectKey) -> None:
        pod = self._pods.get(key.name, key.namespace)
        if pod is None:
            return
        if pod_status.is_deleted(pod):
            await self._remove(pod)
        elif pod.status.phase in ("", "Pending"):
            if _has_its_claims(pod):
                await self._write(pod, self._running(pod))
        elif pod.status.phase == "Running" and ENDS_AS in pod.metadata.annotations:
            await self._write(pod, self._ended(pod, pod.metadata.annotations[ENDS_AS]))

    async def _remove(self, pod: Pod) -> None:
        if not pod_status.has_ended(pod):
            await self._write(pod, self._ended(pod, "Succeeded"))
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
        try:
            await self.client.delete(kinds.POD, pod.metadata.name, pod.metadata.namespace, options)
        except errors.NotFound:
            return

    def _running(self, pod: Pod) -> dict[str, Any]:
        ready = "False" if NEVER_READY in pod.metadata.annotations else "True"
        return {"phase": "Running", "conditions": [self._condition(ready)]}

    def _ended(self, pod: Pod, phase: str) -> dict[str, Any]:
        return {"phase": phase, "conditions": [self._condition("False")]}

    def _condition(self, ready: str) -> dict[str, str]:
        return {
            "type": "Ready",
            "status": ready,
            "lastTransitionTime": gotime.write(self.now()),
        }

    async def _write(self, pod: Pod, status: dict[str, Any]) -> None:
        patch = {"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": status}
        await self.client.patch(
            kinds.POD, pod.metadata.name, patch, pod.metadata.namespace, subresource="status"
        )


def _has_its_claims(pod: Pod) -> bool:
    """No pod is bound before the claims of its templates are made."""
    made = {status.name for status in pod.status.resource_claim_statuses}
    wanted = (claim for claim in pod.spec.resource_claims if claim.resource_claim_template_name)
    return all(each.name in made for each in wanted)
