"""pods/binding: assigns a pod to a node.

As pkg/registry/core/pod/storage, BindingREST. A pod is bound once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from dray.api import errors, kinds
from dray.api.formats import gotext, names
from dray.api.http_messages import Response
from dray.api.ids import GroupResource
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.apiserver.admission.admission_chain import AdmissionChain
from dray.apiserver.request import write_options
from dray.apiserver.request.call import Call
from dray.apiserver.storage.lookup import Lookup
from dray.apiserver.subresources import common
from dray.apiserver.verbs import reads, write_checks, writes
from dray.store.store import GuardFailed, Store

BINDING = GroupVersionKind("", "v1", "Binding")
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

_REFUSED = GroupResource("", "pods/binding")


class _Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


@dataclass(frozen=True, slots=True)
class Bindings:
    store: Store
    chain: AdmissionChain
    nodes: Lookup[_Node]

    @classmethod
    def over(cls, store: Store, chain: AdmissionChain) -> Bindings:
        return cls(store, chain, Lookup(store, kinds.NODE, _Node))

    async def create(self, call: Call) -> Response:
        """Handle `pods/NAME/binding`, and `bindings`, where only the body names the pod."""
        options = write_options.parse(call.request, "CreateOptions")
        binding = writes.read_form(call, BINDING, options)
        metadata = binding.get("metadata") or {}
        if call.kind is not kinds.POD:
            info = replace(call.info, name=metadata.get("name", ""), subresource="binding")
            call = call.about(kinds.POD, info)
        admission = common.creation(call, binding, options, dry_run=options.dry_run)
        await self.chain.mutate(admission)
        if metadata.get("name") != call.info.name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        _check(binding)
        await self.chain.validate(admission)
        await self._bind(call, binding, options.dry_run)
        return common.success(call)

    async def _bind(self, call: Call, binding: JsonObject, dry_run: bool) -> None:
        labels = await self._topology_of(binding["target"]["name"])
        for _ in range(common.ATTEMPTS):
            entry, pod = await reads.stored_object(call, self.store)
            _check_bindable(call.info.name, pod, binding.get("metadata") or {})
            _assign(call, pod, binding, labels)
            if dry_run:
                return
            with contextlib.suppress(GuardFailed):
                await common.commit(self.store, common.put(entry, pod))
                return
        raise errors.conflict(_REFUSED, call.info.name)

    async def _topology_of(self, node: str) -> dict[str, str]:
        """Return the topology labels that a pod gets from its node.

        As plugin/pkg/admission/podtopologylabels.
        """
        stored_node = await self.nodes.get(node)
        labels = stored_node.metadata.labels if stored_node else {}
        return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}


def _check(binding: JsonObject) -> None:
    # Kubernetes does not turn these into a Status of their own: the response is a plain 500.
    complaints = list(_complaints(binding.get("target") or {}))
    if complaints:
        raise errors.InternalError(gotext.aggregate(complaints), reason="")


def _complaints(target: JsonObject) -> Iterator[str]:
    kind, name = target.get("kind") or "Node", target.get("name")
    if kind != "Node":
        quoted = gotext.quote(kind)
        yield f'target.kind: Unsupported value: {quoted}: supported values: "Node", "<empty>"'
    if not name:
        yield "target.name: Required value"
    elif kind == "Node":
        for why in names.dns_subdomain_errors(name):
            yield f"target.name: Invalid value: {gotext.quote(name)}: {why}"


def _check_bindable(name: str, pod: JsonObject, expected: JsonObject) -> None:
    metadata, spec = pod["metadata"], pod["spec"]
    write_checks.check_metadata(GroupResource("", "pods"), name, metadata, expected)
    if metadata.get("deletionTimestamp"):
        raise errors.conflict(
            _REFUSED, name, f"pod {name} is being deleted, cannot be assigned to a host"
        )
    if spec.get("nodeName"):
        node = gotext.quote(spec["nodeName"])
        raise errors.conflict(_REFUSED, name, f"pod {name} is already assigned to node {node}")
    if spec.get("schedulingGates"):
        raise errors.conflict(_REFUSED, name, f"pod {name} has non-empty .spec.schedulingGates")


def _assign(call: Call, pod: JsonObject, binding: JsonObject, labels: dict[str, str]) -> None:
    metadata, given = pod["metadata"], binding.get("metadata") or {}
    pod["spec"]["nodeName"] = binding["target"]["name"]
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    added_labels = labels | (given.get("labels") or {})
    for field, added in (("annotations", given.get("annotations")), ("labels", added_labels)):
        if added:
            metadata[field] = {**(metadata.get(field) or {}), **added}
    condition = {"type": "PodScheduled", "status": "True"}
    common.set_condition(pod, condition, call.now, times=("lastProbeTime",))
