"""Answers `dray explain` in the process of the cluster, from what the scheduler knows.

The command would read the whole cluster for its answer. This one is for those who may do so: the
rights to list all that explanations depend on are asked for first. What the scheduler does not
follow is read for each answer, with the identity of the user.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec

import dray
from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.api import errors, kinds
from dray.api.conversion import typed_objects
from dray.api.features import Features
from dray.api.http_messages import Handler, Request, Response, User
from dray.api.ids import GroupResource
from dray.api.kinds import Kind
from dray.api.types.core import CoreEvent, ResourceQuota
from dray.api.types.dra import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.nodes import Node
from dray.api.types.pods import Pod
from dray.apiserver.access.rbac import Attributes, Authorize
from dray.apiserver.request import offloading
from dray.apiserver.verbs import reads
from dray.client import discovery
from dray.client.api_client import EVERYTHING, Client, InProcessTransport, ObjectSelection
from dray.explain import claim_explanation, reporting
from dray.explain.pod import pod_context, pod_explanation
from dray.explain.pod.pod_context import PodContext
from dray.explain.preemption import pod_preemption
from dray.explain.report import Report, ReportForm
from dray.scheduler.cluster_state import SchedulerState

WAITING_LIMIT: Final = 4
"""How many may wait for an answer at the same time: one is found at a time."""
FORGET_SECONDS: Final = 600.0
"""How long the inventory is kept after an answer."""
_FOLLOWED: Final = (kinds.NODE, kinds.RESOURCE_SLICE, kinds.RESOURCE_CLAIM, kinds.POD)
"""The kinds of `SchedulerState.objects`."""
_READ: Final[Mapping[Kind, type[Any]]] = {
    kinds.DEVICE_CLASS: DeviceClass,
    kinds.DEVICE_TAINT_RULE: DeviceTaintRule,
    kinds.RESOURCE_CLAIM_TEMPLATE: ResourceClaimTemplate,
    kinds.RESOURCE_QUOTA: ResourceQuota,
    kinds.EVENT: CoreEvent,
}
"""The other kinds that explanations depend on, of which there are few."""
_ORDERED: Final = (Node, ResourceSlice, DeviceClass, DeviceTaintRule)
"""The types whose order in the inventory may matter to an answer."""

Objects = Mapping[type[Any], Sequence[Any]]


class _Question(msgspec.Struct, frozen=True):
    kind: Kind
    namespace: str
    name: str
    form: ReportForm


class ServedExplanations:
    """Explains one pod or claim at a time, in a thread."""

    def __init__(self, handler: Handler, authorize: Authorize) -> None:
        self._handler, self._authorize = handler, authorize
        self._state: SchedulerState | None = None
        self._asked = 0
        self._explained = _ExplainedObjects()
        self._forgetting: asyncio.TimerHandle | None = None

    def follow(self, state: SchedulerState | None) -> None:
        """Answer from the state of a scheduler, or not at all."""
        self._state = state

    @functools.cached_property
    def _thread(self) -> ThreadPoolExecutor:
        # Made for the first question: many clusters are never asked.
        return offloading.new_executor("explanations")

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a GET with a report. Raises StatusError, also for what is not answered here."""
        if request.parameter("version") != dray.__version__:
            raise errors.path_not_found()
        self._check_rights(user)
        question = _question(request)
        if self._asked >= WAITING_LIMIT:
            raise errors.too_many_requests("too many explanations at once", 1)
        self._asked += 1
        try:
            report = await self._report(question, user)
        finally:
            self._asked -= 1
            self._forget_later()
        if report is None:
            resource = GroupResource(question.kind.group, question.kind.plural)
            raise errors.not_found(resource, question.name)
        return reads.json_response(msgspec.json.encode(report))

    def _check_rights(self, user: User) -> None:
        """Raise Forbidden unless the user may list all that the scheduler follows."""
        for kind in _FOLLOWED:
            refusal = self._authorize(user, Attributes("list", kind.group, kind.plural))
            if refusal is not None:
                raise errors.forbidden(GroupResource(kind.group, kind.plural), "", refusal)

    async def _report(self, question: _Question, user: User) -> Report | None:
        client = Client(InProcessTransport(self._handler, user))
        features = (await discovery.version_of(client)).features
        if pod_preemption.is_explained(features):
            raise errors.path_not_found()
        read = {type_: await _read(client, kind, question) for kind, type_ in _READ.items()}
        # Last, so that the pod's claims are there if it is.
        followed = self._state.objects if self._state is not None else {}
        if not followed:
            raise errors.ServiceUnavailable("no scheduler follows the cluster in this process")
        objects = {**read, **followed}
        return await offloading.moved_to(
            self._thread, self._explained.report, objects, features, question
        )

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(
            FORGET_SECONDS, self._thread.submit, self._explained.forget
        )


def _question(request: Request) -> _Question:
    kind = kinds.by_name(request.parameter("kind"))
    form = request.parameter("form")
    if kind not in (kinds.POD, kinds.RESOURCE_CLAIM) or form not in tuple(ReportForm):
        raise errors.path_not_found()
    namespace, name = request.parameter("namespace"), request.parameter("name")
    return _Question(kind, namespace, name, ReportForm(form))


async def _read(client: Client, kind: Kind, question: _Question) -> list[Any]:
    """Return the objects of a kind that the user may list. Raises Forbidden."""
    selection = EVERYTHING
    if kind == kinds.EVENT:
        fields = f"involvedObject.kind=Pod,involvedObject.name={question.name}"
        selection = ObjectSelection(field_selector=fields)
    try:
        page = await client.list(kind, selection)
    except errors.NotFound:
        # The kind is not served.
        return []
    header = {"apiVersion": kind.preferred.api_version, "kind": kind.kind}
    documents = ({**header, **msgspec.json.decode(item)} for item in page.items)
    return [typed_objects.decode(document, _READ[kind]) for document in documents]


class _ExplainedObjects:
    """The objects of the last explanation, for one thread: the next one has most of them too."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._given: Objects = {}
        self._features: Features | None = None
        self._objects: dict[type[Any], dict[str, Any]] = {}
        self._inventory = ClusterInventory()
        self._context = PodContext()

    def report(self, objects: Objects, features: Features, question: _Question) -> Report | None:
        """Return the explanation of one object; None if it is not explained here."""
        try:
            self._take(objects, features)
            return self._report(objects, question)
        except BaseException:
            # The inventory may have changes that were tried, or lack some.
            self.forget()
            raise

    def _report(self, objects: Objects, question: _Question) -> Report | None:
        title = f"{question.kind.singular}/{question.name}"
        place = f"{question.namespace}/{question.name}"
        if question.kind == kinds.POD:
            pod: Pod | None = self._objects[Pod].get(place)
            # The pods that leave a nominated node may have ended, and those are not followed.
            if pod is None or pod.status.nominated_node_name:
                return None
            # Those of another pod.
            self._context.results.events = None
            context = pod_context.with_events(self._context, pod, objects[CoreEvent])
            found = pod_explanation.explain_pod(pod, context, self._inventory)
            return reporting.report(title, found, question.form)
        claim: ResourceClaim | None = self._objects[ResourceClaim].get(place)
        if claim is None:
            return None
        explanation = claim_explanation.explain(
            self._inventory, [claim], new_share_id=lambda: "new"
        )
        title = f"claim/{question.name}"
        return reporting.report(title, explanation, question.form)

    def _take(self, objects: Objects, features: Features) -> None:
        """Take over the objects; those that are the same are not looked at again."""
        given = {type_: values for type_, values in objects.items() if type_ is not CoreEvent}
        if given == self._given and features == self._features:
            return
        before, self._objects = (
            self._objects,
            {
                # In the order of the API server: the first node on which a pod fits is the answer.
                type_: {_place(value): value for value in sorted(values, key=_place)}
                for type_, values in given.items()
            },
        )
        self._given = given
        self._context = pod_context.from_objects(
            {type_: tuple(found.values()) for type_, found in self._objects.items()}, features
        )
        is_alike = features == self._features and all(
            list(before.get(type_, ())) == list(self._objects[type_]) for type_ in _ORDERED
        )
        self._features = features
        if is_alike:
            self._change(before)
        else:
            self._inventory = pod_context.inventory_of(self._context)

    def _change(self, before: Mapping[type[Any], Mapping[str, Any]]) -> None:
        """Put what has changed into the inventory, where all but claims have stayed."""
        inventory = self._inventory
        put: dict[type[Any], Callable[[Any], object]] = {
            Node: inventory.put_node,
            ResourceSlice: inventory.put_slice,
            DeviceClass: inventory.put_class,
            DeviceTaintRule: inventory.put_taint_rule,
        }
        for type_, take in put.items():
            for place, value in self._objects[type_].items():
                old = before[type_][place]
                if value is not old and value != old:
                    take(value)
        claims_before, claims = before[ResourceClaim], self._objects[ResourceClaim]
        for place, claim in claims_before.items():
            if claims.get(place) is not claim and claim.status.allocation is not None:
                inventory.release(claim.key)
        for place, claim in claims.items():
            if claims_before.get(place) is not claim and claim.status.allocation is not None:
                inventory.put_claim(claim)


def _place(value: Any) -> str:
    """Return the place of an object in the order of lists."""
    return f"{value.metadata.namespace}/{value.metadata.name}"
