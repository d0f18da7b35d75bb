"""Explains why a pod of the cluster under test waits, as `dray explain` does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.features import Features
from dray.api.kinds import Kind
from dray.api.types import core, dra, nodes, pods
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client
from dray.explain.pod import pod_context, pod_explanation, pod_fix_text

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


class ExplainedPod(NamedTuple):
    """The output of `dray explain pod/NAME`: the text, and the data of `-o json`."""

    text: str
    data: JsonObject

    def __str__(self) -> str:
        return self.text


async def explain(client: Client, gates: Features, name: str, namespace: str) -> ExplainedPod:
    """Explain a pod by the objects as they are now. Raises NotFound."""
    pod = msgspec.convert(await client.get(kinds.POD, name, namespace), pods.Pod)
    lists = await asyncio.gather(*(_objects(client, kind, type_) for type_, kind in _READ.items()))
    objects = dict(zip(_READ, lists, strict=True))
    context = pod_context.from_objects(objects, gates)
    about = pod_context.with_events(context, pod, objects[core.CoreEvent])
    explained = pod_explanation.explain_pod(pod, about, pod_context.inventory_of(context))
    text = "\n".join(pod_fix_text.lines(explained)) + "\n"
    return ExplainedPod(text, {"about": f"pod/{name}", **pod_fix_text.document(explained)})


async def _objects(client: Client, kind: Kind, type_: type[Any]) -> Sequence[Any]:
    decoder = msgspec.json.Decoder(type_)
    return [decoder.decode(item) for item in (await client.list(kind)).items]
