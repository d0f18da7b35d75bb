"""A whole API server over a memory store, without a socket, and objects to put into it."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec

from dray import telemetry
from dray.api import features, http_messages
from dray.api.features import Features
from dray.api.http_messages import Request, User
from dray.api.types.meta import JsonObject
from dray.apiserver import app as application
from dray.apiserver import bootstrap, composition, server
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.bound_objects import BoundObjects
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.apiserver.admission.policies.stored_policies import StoredPolicies
from dray.apiserver.discovery import Discovery
from dray.apiserver.node_agents import NodeAgents
from dray.apiserver.storage.device_usage import DeviceUsage
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.apiserver.verbs.deletion import Deleter
from dray.apiserver.verbs.writes import Writer
from dray.store import memory, watch
from tests import loop

Result = TypeVar("Result")

ADMIN = User("admin", frozenset({"system:masters", "system:authenticated"}), "admin-uid")
ALICE = User("alice", frozenset({"system:authenticated"}))
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


def node_user(name: str) -> User:
    return User(f"system:node:{name}", frozenset({"system:nodes", "system:authenticated"}))


class Answer(NamedTuple):
    status: int
    body: JsonObject
    warnings: list[str]

    @property
    def message(self) -> str:
        message: str = self.body.get("message", "")
        return message

    @property
    def causes(self) -> list[JsonObject]:
        causes: list[JsonObject] = (self.body.get("details") or {}).get("causes", [])
        return causes


class World:
    """Requests are answered one after the other; what follows the store has caught up each time."""

    def __init__(self, gates: Features = features.DEFAULT, *, mounts_tokens: bool = False) -> None:
        self.store = memory.MemoryStore(watch.Fanout(0, watch.DEFAULT_LIMITS))
        self.published = PublishedSlices()
        self.signer = TokenSigner(ec.generate_private_key(ec.SECP256R1()))
        self.authenticator = Authenticator(
            self.signer, BoundObjects(self.store), lambda: datetime.datetime.now().timestamp()
        )
        self._slices = self.published.follow(self.store)
        self.policies = StoredPolicies()
        self._policies = self.policies.followers(self.store)
        self.usage = DeviceUsage(self.store)
        numbers = itertools.count()
        run(bootstrap.bootstrap(self.store, NOW, server.new_uid))
        self.authorizer = run(Authorizer.open(self.store))
        around = composition.RuleDependencies(
            self.store,
            gates,
            self.authorizer,
            self.published,
            self.policies,
            self.usage,
            lambda: NOW,
            lambda: f"x{next(numbers)}",
            mounts_tokens,
        )
        self.chain = composition.build_admission_chain(around)
        hooks = composition.body_hooks(gates)
        self.writer = Writer(
            self.store,
            gates,
            self.chain,
            self.authorizer.refusal,
            server.new_uid,
            around.new_suffix,
            hooks,
        )
        self.app = self._application()

    def _application(self) -> application.App:
        deleter = Deleter(self.store, self.chain)
        behind = composition.SubresourceHandlers(
            self.store,
            self.chain,
            self.writer,
            deleter,
            self.authorizer,
            self.authenticator,
            self.signer,
            server.new_uid,
            NodeAgents(self.store, None),
        )
        return application.App(
            store=self.store,
            discovery=Discovery(()),
            authorize=self.authorizer.refusal,
            writer=self.writer,
            deleter=deleter,
            metrics=application.Metrics(telemetry.Registry()),
            subresources=composition.subresources(behind),
        )

    def ask(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        user: User = ADMIN,
        content_type: str = http_messages.JSON,
        query: str = "",
    ) -> Answer:
        return run(self.answer(method, path, body, user, content_type, query))

    async def answer(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        user: User = ADMIN,
        content_type: str = http_messages.JSON,
        query: str = "",
    ) -> Answer:
        await self.authorizer.load()
        for follower in (self._slices, *self._policies):
            await follower.load()
        await self.usage.follower.load()
        pairs = tuple(tuple(part.split("=", 1)) for part in query.split("&") if part)
        request = Request(
            method,
            path,
            pairs,  # type: ignore[arg-type]
            {"content-type": content_type, "user-agent": "test/1"},
            b"" if body is None else json.dumps(body).encode(),
        )
        response = await self.app.handle(request, user)
        shown = json.loads(response.body) if response.body else {}
        warnings = response.headers.get("warning", "")
        return Answer(response.status, shown, warnings.split(", 299") if warnings else [])

    def create(self, path: str, body: JsonObject, *, user: User = ADMIN) -> JsonObject:
        answer = self.ask("POST", path, body, user=user)
        assert answer.status == 201, answer.body
        return answer.body

    def get(self, path: str) -> JsonObject:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer.body
        return answer.body


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return loop.run(work)


def namespace(name: str, **labels: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels}}


def pod(name: str, **spec: Any) -> JsonObject:
    containers = [{"name": "c", "image": "pause"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def claim(name: str, **exactly: Any) -> JsonObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def node(name: str, **labels: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels}}


def resource_slice(name: str, node_name: str, *devices: JsonObject, **spec: Any) -> JsonObject:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node_name,
            "devices": list(devices),
            **spec,
        },
    }


def grant(world: World, user: User, *rules: JsonObject) -> None:
    """Let a user do something everywhere."""
    role = f"may-{user.name}".replace(":", "-")
    world.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {"metadata": {"name": role}, "rules": list(rules)},
    )
    world.create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": role},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [
                {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user.name}
            ],
        },
    )
