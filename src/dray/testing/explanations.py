"""Explains why a pod of the cluster under test waits, as `dray explain` does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.types import core, dra, nodes, pods, workloads
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client
from dray.explain.pod import pod_context, pod_explanation, pod_fix_text, pod_progress_text
from dray.explain.preemption import pod_preemption, preemption_text
from dray.explain.preemption.preemption_explainer import PreemptionExplainer

_READ: Final[dict[type[Any], Kind]] = {
    core.CoreEvent: kinds.EVENT,
    core.ResourceQuota: kinds.RESOURCE_QUOTA,
    dra.DeviceClass: kinds.DEVICE_CLASS,
    dra.DeviceTaintRule: kinds.DEVICE_TAINT_RULE,
    dra.ResourceClaim: kinds.RESOURCE_CLAIM,
    dra.ResourceClaimTemplate: kinds.RESOURCE_CLAIM_TEMPLATE,
    dra.ResourceSlice: kinds.RESOURCE_SLICE,
    nodes.Node: kinds.NODE,
    pods.Pod: kinds.POD,
}
_READ_FOR_PREEMPTION: Final[dict[type[Any], Kind]] = {
    core.Namespace: kinds.NAMESPACE,
    core.PodDisruptionBudget: kinds.POD_DISRUPTION_BUDGET,
    core.PriorityClass: kinds.PRIORITY_CLASS,
    workloads.PodGroup: kinds.POD_GROUP,
}


class ExplainedPod(NamedTuple):
    """The output of `dray explain pod/NAME`: the text, and the data of `-o json`."""

    text: str
    data: JsonObject

    def __str__(self) -> str:
        return self.text


async def explain(client: Client, gates: Features, name: str, namespace: str) -> ExplainedPod:
    """Explain a pod by the objects as they are now. Raises NotFound."""
    pod = msgspec.convert(await client.get(kinds.POD, name, namespace), pods.Pod)
    objects = await _lists(client, _READ)
    context = pod_context.from_objects(objects, gates)
    about = pod_context.with_events(context, pod, objects[core.CoreEvent])
    explained = pod_explanation.explain_pod(pod, about, pod_context.inventory_of(context))
    lines = [*pod_progress_text.lines(explained.progress, pod_fix_text.fixes(explained))]
    data = {"about": f"pod/{name}", **pod_fix_text.document(explained)}
    if pod_preemption.is_explained(gates):
        further = await _lists(client, _further_kinds(gates))
        others = itertools.chain.from_iterable(further.values())
        preemption = PreemptionExplainer(context, others).explain(pod)
    else:
        preemption = pod_preemption.under_way(pod, context.pods, is_on=False)
    if preemption is not None:
        lines += [f"  {line}" for line in preemption_text.lines(preemption)]
        data["preemption"] = preemption_text.as_json(preemption)
    lines += pod_fix_text.device_lines(explained)
    return ExplainedPod("\n".join(lines) + "\n", data)


def _further_kinds(gates: Features) -> dict[type[Any], Kind]:
    """Return the kinds that only preemption needs and that the cluster serves."""
    kinds_read = dict(_READ_FOR_PREEMPTION)
    if not gates.generic_workload:
        del kinds_read[workloads.PodGroup]
    return kinds_read


async def _lists(client: Client, read: Mapping[type[Any], Kind]) -> dict[type[Any], Sequence[Any]]:
    lists = await asyncio.gather(*(_objects(client, kind, type_) for type_, kind in read.items()))
    return dict(zip(read, lists, strict=True))


async def _objects(client: Client, kind: Kind, type_: type[Any]) -> Sequence[Any]:
    decoder = msgspec.json.Decoder(type_)
    return [decoder.decode(item) for item in (await client.list(kind)).items]
