"""Assembles an API server, and runs the tasks that keep its caches in sync."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray import telemetry
from dray.api import features as gates
from dray.api.features import Features
from dray.api.http_messages import User
from dray.api.remote_command import API_SERVER_NAME
from dray.apiserver import audit, composition, event_expiry
from dray.apiserver.access import certificates
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.bound_objects import BoundObjects
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.revocation import Revocations
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.apiserver.admission.policies.stored_policies import StoredPolicies
from dray.apiserver.app import App, Metrics
from dray.apiserver.bootstrap import bootstrap
from dray.apiserver.composition import RuleDependencies, SubresourceHandlers
from dray.apiserver.discovery import Discovery
from dray.apiserver.event_expiry import EventExpiry
from dray.apiserver.https_server import Server
from dray.apiserver.kubernetes_service import KubernetesService
from dray.apiserver.node_agents import MakeIdentity, NodeAgents
from dray.apiserver.serving.limits import DEFAULT_LIMITS, ServerLimits
from dray.apiserver.storage.device_usage import DeviceUsage
from dray.apiserver.storage.follower import StoreFollower
from dray.apiserver.storage.slice_cache import PublishedSlices
from dray.apiserver.verbs.deletion import Deleter
from dray.apiserver.verbs.writes import Writer
from dray.clock import utc_now
from dray.store.store import Store

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: generated names spell no words, as in apimachinery."""
SUFFIX_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an API server."""

    features: Features = gates.DEFAULT
    disabled: tuple[str, ...] = ()
    """Disabled group versions: `--runtime-config=resource.k8s.io/v1beta1=false`."""
    mounts_tokens: bool = False
    static_tokens: Mapping[str, User] = field(default_factory=dict)
    limits: ServerLimits = DEFAULT_LIMITS
    audit_log: Path | None = None
    """The file that gets a line for every request."""
    event_seconds: float = event_expiry.DEFAULT_SECONDS
    """How long Events stay after they were last seen; 0 is forever."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running API server: `app` for calls in this process, `server` for HTTPS."""

    app: App
    server: Server
    authorizer: Authorizer
    signer: TokenSigner
    authenticator: Authenticator
    features: Features = gates.DEFAULT


@dataclass(frozen=True, slots=True)
class _FollowedObjects:
    """Objects of the store that the server has in memory, and what keeps them current."""

    published: PublishedSlices
    usage: DeviceUsage
    revoked: Revocations
    policies: StoredPolicies
    followers: tuple[StoreFollower, ...]

    @classmethod
    async def open(cls, store: Store) -> _FollowedObjects:
        published, usage = PublishedSlices(), DeviceUsage(store)
        revoked, policies = Revocations(), StoredPolicies()
        followers = (
            published.follow(store),
            usage.follower,
            revoked.follow(store),
            *policies.followers(store),
        )
        for follower in followers:
            await follower.load()
        await usage.remove_unused()
        return cls(published, usage, revoked, policies, followers)

    def dependencies(
        self, store: Store, settings: Settings, authorizer: Authorizer
    ) -> RuleDependencies:
        """Return what the rules of admission need."""
        return RuleDependencies(
            store,
            settings.features,
            authorizer,
            self.published,
            self.policies,
            self.usage,
            utc_now,
            new_suffix,
            settings.mounts_tokens,
        )


@contextlib.asynccontextmanager
async def open_server(
    store: Store,
    *,
    signer: TokenSigner,
    settings: Settings | None = None,
    registry: telemetry.Registry | None = None,
    identity: MakeIdentity | None = None,
) -> AsyncIterator[RunningServer]:
    """Open an API server over a store, with the objects of a new cluster; ready when yielded.

    `identity` makes the client certificate for requests to node agents.
    """
    settings = settings or Settings()
    await bootstrap(store, utc_now(), new_uid)
    service = KubernetesService(store, utc_now, new_uid)
    await service.create()
    authorizer = await Authorizer.open(store)
    followed = await _FollowedObjects.open(store)
    authenticator = Authenticator(
        signer, BoundObjects(store), time.time, settings.static_tokens, followed.revoked
    )
    agents = NodeAgents(store, identity)
    chain = composition.build_admission_chain(followed.dependencies(store, settings, authorizer))
    hooks = composition.body_hooks(settings.features)
    writer = Writer(store, settings.features, chain, authorizer.refusal, new_uid, new_suffix, hooks)
    deleter = Deleter(store, chain)
    handlers = SubresourceHandlers(
        store, chain, writer, deleter, authorizer, authenticator, signer, new_uid, agents
    )
    with audit.opened(settings.audit_log) as audit_log:
        app = App(
            store=store,
            discovery=Discovery(settings.disabled),
            authorize=authorizer.refusal,
            writer=writer,
            deleter=deleter,
            metrics=Metrics(registry or telemetry.Registry()),
            subresources=composition.subresources(handlers),
            audit_log=audit_log,
        )
        server = Server(app, authenticator, settings.limits)
        server.on_listening = service.listens_at
        expiry = EventExpiry(store, settings.event_seconds, time.time)
        follow = (follower.run for follower in followed.followers)
        background = [authorizer.run, expiry.run, service.run, *follow]
        async with agents, _running(background):
            yield RunningServer(app, server, authorizer, signer, authenticator, settings.features)


@contextlib.asynccontextmanager
async def _running(
    background: Iterable[Callable[[], Coroutine[Any, Any, None]]],
) -> AsyncIterator[None]:
    """Follow and tidy the store in the background until the block is left."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for run in background]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def signer_in(directory: Path) -> TokenSigner:
    return TokenSigner.load_or_create(directory / "service-accounts.key")


def identity_in(directory: Path) -> MakeIdentity:
    """Return a function that makes the API server's certificate for node agents."""
    lifetime = certificates.COMPONENT_LIFETIME
    return lambda: Authority.load_or_create(directory).client_pair(API_SERVER_NAME, (), lifetime)


def new_uid() -> str:
    """Return a random UUID (version 4) as text, faster than `uuid.uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def new_suffix() -> str:
    return "".join(random.choices(_SUFFIX_ALPHABET, k=SUFFIX_LENGTH))
