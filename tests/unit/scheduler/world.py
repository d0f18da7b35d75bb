"""A control plane in memory: the real API server, the scheduler, and the loop that makes claims."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from dray import telemetry
from dray.api import errors, kinds
from dray.api import features as gates
from dray.api.features import Features
from dray.api.http_messages import Handler, Request, Response, User
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.apiserver import server
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.client.api_client import Client, InProcessTransport, ObjectSelection
from dray.clock import utc_now
from dray.controllers import manager
from dray.scheduler import scheduler
from dray.store import memory
from tests import virtualtime, waiting

ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}))
SCHEDULER = User("system:kube-scheduler", frozenset({"system:authenticated"}))
DEADLINE_SECONDS = 15.0
DRIVER = "gpu.example.com"

Intercept = Callable[[Request, Callable[[], Awaitable[Response]]], Awaitable[Response]]


class Clock:
    """A wall clock that tests move."""

    def __init__(self) -> None:
        self.time = datetime.datetime.now(datetime.UTC)

    def __call__(self) -> datetime.datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += datetime.timedelta(seconds=seconds)


class World:
    """`intercept`, where set, stands between the scheduler and the API server."""

    def __init__(self, handler: Handler, clock: Clock) -> None:
        self.handle = handler
        self.client = Client(InProcessTransport(handler, ADMIN))
        self.clock = clock
        self.registry = telemetry.Registry()
        self.intercept: Intercept | None = None
        self.requests: list[Request] = []
        """What the scheduler has asked."""

    async def answer_scheduler(self, request: Request, user: User) -> Response:
        self.requests.append(request)
        if self.intercept is None:
            return await self.handle(request, user)
        return await self.intercept(request, lambda: self.handle(request, user))

    async def create(self, *bodies: JsonObject, namespace: str = "default") -> JsonObject:
        created: JsonObject = {}
        for body in bodies:
            kind = kind_of(body)
            where = body.get("metadata", {}).get("namespace", namespace)
            created = await self.client.create(kind, body, where if kind.namespaced else "")
            if kind.kind == "Node":
                # Every node starts with a taint that its lifecycle controller would remove.
                taints = body.get("spec", {}).get("taints")
                await self.patch("nodes", body["metadata"]["name"], {"spec": {"taints": taints}})
        return created

    async def get(self, plural: str, name: str, namespace: str = "default") -> JsonObject:
        kind = named(plural)
        return await self.client.get(kind, name, namespace if kind.namespaced else "")

    async def all(self, plural: str, namespace: str = "") -> list[JsonObject]:
        page = await self.client.list(named(plural), ObjectSelection(namespace=namespace))
        return [msgspec.json.decode(item) for item in page.items]

    async def patch(
        self, plural: str, name: str, patch: Any, namespace: str = "default", **options: Any
    ) -> JsonObject:
        kind = named(plural)
        where = namespace if kind.namespaced else ""
        return await self.client.patch(kind, name, patch, where, **options)

    async def set_status(self, plural: str, name: str, status: Any) -> JsonObject:
        return await self.patch(plural, name, {"status": status}, subresource="status")

    async def delete(self, plural: str, name: str, **options: Any) -> None:
        kind = named(plural)
        where = "default" if kind.namespaced else ""
        with contextlib.suppress(errors.NotFound):
            await self.client.delete(kind, name, where, options or None)

    async def remove_pod(self, name: str) -> None:
        """What the node agent does when the containers of a deleted pod have stopped."""
        await self.delete("pods", name, gracePeriodSeconds=0)

    async def until(self, check: Callable[[], Awaitable[Any]], what: str = "") -> Any:
        return await waiting.until_answered(check, what, seconds=DEADLINE_SECONDS)

    async def bound(self, name: str) -> str:
        """Wait until the pod has a node; its name."""

        async def node() -> str:
            pod = await self.get("pods", name)
            return str(pod["spec"].get("nodeName", ""))

        node_name = await self.until(node, f"pod {name} to be bound")
        return str(node_name)

    async def refused(self, name: str, containing: str = "") -> str:
        """Wait until the pod says that it has no node; the message."""

        async def message() -> str:
            condition = condition_of(await self.get("pods", name))
            text = condition.get("message", "") if condition.get("status") == "False" else ""
            return text if containing in text else ""

        text = await self.until(message, f"pod {name} to be refused with {containing!r}")
        return str(text)

    async def claims_of(self, pod: str) -> list[JsonObject]:
        found = await self.get("pods", pod)
        names = [status["resourceClaimName"] for status in found["status"]["resourceClaimStatuses"]]
        return [await self.get("resourceclaims", name) for name in names]

    def decisions(self) -> list[Request]:
        """What the scheduler has asked, except to tell people about it in its own time."""
        return [request for request in self.requests if "/events" not in request.path]

    async def settle(self) -> None:
        """Wait until the scheduler asks nothing any more."""
        quiet, before = 0, len(self.decisions())
        async with asyncio.timeout(DEADLINE_SECONDS):
            while quiet < 10:
                await asyncio.sleep(0.005)
                quiet = quiet + 1 if len(self.decisions()) == before else 0
                before = len(self.decisions())


def named(plural: str) -> Kind:
    kind = kinds.by_name(plural)
    assert kind is not None, plural
    return kind


def kind_of(body: JsonObject) -> Kind:
    group, _ = kinds.parse_api_version(body["apiVersion"])
    return kinds.served(group, body["kind"])


def condition_of(pod: JsonObject, type_: str = "PodScheduled") -> JsonObject:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == type_), {})


def devices_of(claim: JsonObject) -> list[str]:
    """pool/device of each device of an allocated claim."""
    results = claim["status"]["allocation"]["devices"]["results"]
    return [f"{result['pool']}/{result['device']}" for result in results]


def exactly(**body: Any) -> JsonObject:
    return {"name": "gpu", "exactly": {"deviceClassName": DRIVER, **body}}


def claim(name: str, *requests: JsonObject, **devices: Any) -> JsonObject:
    asked = list(requests) or [exactly()]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": asked, **devices}},
    }


def template(name: str, *requests: JsonObject, **devices: Any) -> JsonObject:
    body = claim(name, *requests, **devices)
    return {**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}


def device_class(name: str = DRIVER, expression: str = "", **spec: Any) -> JsonObject:
    expression = expression or f'device.driver == "{DRIVER}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def node(name: str, labels: JsonObject | None = None, **allocatable: Any) -> JsonObject:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def gpu(name: str, memory: str = "80Gi", **more: Any) -> JsonObject:
    return {
        "name": name,
        "attributes": {"model": {"string": "h100"}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def gpu_slice(node_name: str, count: int = 8, *devices: JsonObject, **spec: Any) -> JsonObject:
    listed = list(devices) or [gpu(f"gpu-{number}") for number in range(count)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": listed,
            **spec,
        },
    }


def pod(
    name: str, claim_name: str = "", *, template_name: str = "", requests: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:  # fmt: skip
    container: JsonObject = {"name": "c", "image": "pause", "resources": {}}
    if requests:
        container["resources"]["requests"] = requests
        container["resources"]["limits"] = requests
    sources = []
    if claim_name:
        sources.append({"name": "gpu", "resourceClaimName": claim_name})
    if template_name:
        sources.append({"name": "gpu", "resourceClaimTemplateName": template_name})
    if sources:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = sources
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


@contextlib.asynccontextmanager
async def world(
    features: Features = gates.DEFAULT,
    clock: Clock | None = None,
    intercept: Intercept | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    signer = TokenSigner(ec.generate_private_key(ec.SECP256R1()))
    settings = server.Settings(features=features)
    async with (
        memory.open() as store,
        server.open_server(store, signer=signer, settings=settings) as opened,
    ):
        here = World(opened.app.handle, clock or Clock())
        here.intercept = intercept
        transport = InProcessTransport(here.answer_scheduler, SCHEDULER)
        now = utc_now if clock is None else clock
        async with asyncio.TaskGroup() as group:
            ready = asyncio.Event()
            controllers = manager.run(
                here.client, only=["claims"], features=features, started=ready
            )
            scheduling = scheduler.run(
                Client(transport, field_manager="kube-scheduler"),
                features=features,
                now=now,
                registry=here.registry,
                **options,
            )
            tasks = [group.create_task(controllers), group.create_task(scheduling)]
            await ready.wait()
            try:
                yield here
            finally:
                for task in tasks:
                    task.cancel()


def in_world(
    **options: Any,
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Run an async test in a world."""

    def decorate(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            virtualtime.run(_run())

        async def _run() -> None:
            async with world(**options) as here:
                await test(here)

        # pytest must not take the world for a fixture.
        del run.__dict__["__wrapped__"]
        return run

    return decorate
