"""Words for shells to complete: types, names of objects, namespaces, contexts and fleets.

A completion never fails: without a cluster there are no names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from dray.api import kinds
from dray.api.errors import StatusError
from dray.cli.command_errors import CommandError
from dray.cli.session import connection, resource_types
from dray.cli.session.connection import Session, Target
from dray.client import kubeconfig as kubeconfigs
from dray.client.api_client import ObjectSelection
from dray.client.kubeconfig import KubeconfigError

PATIENCE_SECONDS = 5.0
FAILURES = (StatusError, KubeconfigError, CommandError, OSError, TimeoutError)
"""What a completion hides: a shell that completes a word shows no errors."""
_OWNERS = ("jobs", "deployments", "statefulsets", "daemonsets", "replicasets")


def objects(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return types, and behind a type the names of its objects; also after TYPE/."""
    words = tuple(context.params.get("what") or ())
    if words and "/" not in words[0]:
        return _items(_names(context, words[0]), incomplete)
    type_name, slash, _ = incomplete.partition("/")
    if slash:
        return _items((f"{type_name}/{name}" for name in _names(context, type_name)), incomplete)
    return _items(["devices", *(kind.plural for kind in kinds.KINDS)], incomplete)


def pods(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the pods, and after TYPE/ the objects that own pods."""
    type_name, slash, _ = incomplete.partition("/")
    if slash:
        return _items((f"{type_name}/{name}" for name in _names(context, type_name)), incomplete)
    owners = [f"{owner}/" for owner in _OWNERS] if incomplete else []
    return _items([*_names(context, "pods"), *owners], incomplete)


def containers(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the containers of the pod of the command line."""
    pod = str(context.params.get("pod") or "").rpartition("/")[2]

    async def read(session: Session) -> list[str]:
        found = await session.client.get(kinds.POD, pod, session.namespace)
        return [container["name"] for container in found["spec"]["containers"]]

    return _items(_read(context, read) if pod else (), incomplete)


def namespaces(context: click.Context, incomplete: str) -> list[CompletionItem]:
    return _items(_names(context, "namespaces"), incomplete)


def nodes(context: click.Context, incomplete: str) -> list[CompletionItem]:
    return _items(_names(context, "nodes"), incomplete)


def contexts(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfig."""
    try:
        return _items(kubeconfigs.contexts(_target(context).kubeconfig or None), incomplete)
    except FAILURES:
        return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _target(context: click.Context) -> Target:
    given = {**context.find_root().params, **{k: v for k, v in context.params.items() if v}}
    kubeconfig, chosen, namespace = (
        str(given.get(name) or "") for name in ("kubeconfig", "context", "namespace")
    )
    return Target(kubeconfig, chosen, namespace, bool(given.get("all_namespaces")))


def _names(context: click.Context, type_name: str) -> list[str]:
    """Return the names of the objects of a type; none if they cannot be read in time."""

    async def read(session: Session) -> list[str]:
        if type_name in resource_types.DEVICE_WORDS:
            return await _device_names(session)
        (kind,) = await session.resources.named(type_name.partition(",")[0])
        page = await session.client.list(kind, ObjectSelection(session.namespace_of(kind)))
        return [_metadata(item)["name"] for item in page.items]

    return _read(context, read)


def _read(context: click.Context, read: Callable[[Session], Awaitable[list[str]]]) -> list[str]:
    async def within_time(session: Session) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await read(session)

    try:
        return sorted(connection.run(_target(context), within_time))
    except FAILURES:
        return []


def _metadata(item: msgspec.Raw) -> dict[str, Any]:
    metadata: dict[str, Any] = msgspec.json.decode(item)["metadata"]
    return metadata


async def _device_names(session: Session) -> list[str]:
    (kind,) = await session.resources.named("resourceslices")
    page = await session.client.list(kind)
    names = set()
    for item in page.items:
        spec = msgspec.json.decode(item)["spec"]
        names |= {
            f"{spec['pool']['name']}/{device['name']}" for device in spec.get("devices") or ()
        }
    return list(names)


def fleets(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the fleets that come with dray; a file is completed by the shell."""
    from dray.drivers.simulated import fleet

    if os.sep in incomplete:
        return [CompletionItem(incomplete, type="file")]
    return _items(fleet.shipped(), incomplete)
