"""Find the kinds that a cluster serves, and the objects that arguments such as `pod/a` name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import kinds
from dray.api.http_messages import JSON, Request
from dray.api.kinds import Kind
from dray.cli.command_errors import ObjectNotFound, WrongUsage
from dray.client.api_client import Client

ROOTS = ("/api", "/apis")
AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DEVICE_WORDS = ("devices", "device", "dev")
"""Types of `get` and `describe` that are not resources of the API."""
_DEVICE_KINDS = ("accelerator", "gpu", "mig", "nic", "npu", "tpu")
ALIASES = {
    "claim": "resourceclaims",
    "claims": "resourceclaims",
    "template": "resourceclaimtemplates",
    "templates": "resourceclaimtemplates",
}
"""Short words that dray's commands know besides those of the API."""


class Resources:
    """The kinds of one cluster, discovered once, when first needed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kinds: list[Kind] | None = None

    async def all(self) -> list[Kind]:
        """Return every kind in every version: the core group and preferred versions first."""
        if self._kinds is None:
            # One after the other: a second connection would take longer than the second response.
            self._kinds = [kind for path in ROOTS for kind in await _discover(self._client, path)]
        return self._kinds

    async def preferred(self) -> list[Kind]:
        """Return every kind once, in its group's preferred version."""
        by_kind: dict[tuple[str, str], Kind] = {}
        for kind in await self.all():
            by_kind.setdefault((kind.group, kind.plural), kind)
        return list(by_kind.values())

    async def named(self, name: str) -> list[Kind]:
        """Return the kinds of a word such as `po`, `claims.v1beta1.resource.k8s.io` or `all`."""
        if self._kinds is None:
            # Every server has these, in one version, and they come before all others.
            for kind in kinds.KINDS:
                if not kind.group and _is_called(kind, name):
                    return [kind]
        served = await self.all()
        for kind in served:
            if _is_called(kind, name):
                return [kind]
        if name.lower() in ALIASES:
            return await self.named(ALIASES[name.lower()])
        members = [kind for kind in await self.preferred() if name in kind.categories]
        if not members:
            raise _unknown(name, served)
        return members

    async def of(self, api_version: str, kind_name: str) -> Kind:
        """Return the kind of an object's apiVersion and kind. Raises ObjectNotFound."""
        group, version = kinds.parse_api_version(api_version)
        served = await self.all()
        same_group = [kind for kind in served if (kind.group, kind.kind) == (group, kind_name)]
        for kind in same_group:
            if kind.versions[0] == version:
                return kind
        raise _unknown_version(api_version, kind_name, same_group)


def full_name(kind: Kind) -> str:
    """Return a kind as kubectl's messages name it: `resourceclaim.resource.k8s.io`."""
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def _is_called(kind: Kind, name: str) -> bool:
    parts, _, rest = name.partition(".")
    words = (kind.plural, kind.singular, kind.kind, *kind.short_names)
    if parts not in words and parts.lower() not in words:
        return False
    version = kind.versions[0]
    return rest in ("", kind.group, version, f"{version}.{kind.group}")


def _unknown(name: str, served: Iterable[Kind]) -> ObjectNotFound:
    if name in DEVICE_WORDS:
        return ObjectNotFound(
            "devices are entries of ResourceSlices, which their drivers write",
            "See them with: dray get devices, or dray describe device POOL/DEVICE",
        )
    if name.lower().removesuffix("s") in _DEVICE_KINDS:
        return ObjectNotFound(
            f'the server doesn\'t have a resource type "{name}"', "See them with: dray get devices"
        )
    words = {word for kind in served for word in (kind.plural, kind.singular)}
    words.update(ALIASES, DEVICE_WORDS)
    close = difflib.get_close_matches(name.lower(), words, n=1)
    advice = f"An object is named with its type, as in pod/{name}. See: dray api-resources"
    if close:
        advice = f"Did you mean {close[0]}?"
    return ObjectNotFound(f'the server doesn\'t have a resource type "{name}"', advice)


def _unknown_version(api_version: str, kind_name: str, same_group: list[Kind]) -> ObjectNotFound:
    message = f'no matches for kind "{kind_name}" in version "{api_version}"'
    advice = "See what is served: dray api-resources"
    if same_group:
        served = ", ".join(kind.preferred.api_version for kind in same_group)
        advice = f"It is served as {served}."
    return ObjectNotFound(message, advice)


async def _discover(client: Client, path: str) -> list[Kind]:
    response = await client.send(Request("GET", path, headers={"accept": f"{AGGREGATED},{JSON}"}))
    document = msgspec.json.decode(response.body)
    if document.get("kind") == "APIGroupDiscoveryList":
        return list(_aggregated(document))
    return await _one_by_one(client, document)


def _aggregated(document: dict[str, Any]) -> Iterator[Kind]:
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            for resource in version.get("resources") or ():
                kind = resource.get("responseKind", {}).get("kind", "")
                where = (name, kind, resource["resource"], version["version"])
                yield _kind(*where, resource.get("scope") == "Namespaced", resource)


async def _one_by_one(client: Client, document: dict[str, Any]) -> list[Kind]:
    """Discover each group and version separately, for servers before 1.30."""
    result: list[Kind] = []
    for group_version in _group_versions(document):
        root = "/apis" if "/" in group_version else "/api"
        response = await client.raw(
            Request("GET", f"{root}/{group_version}", headers={"accept": JSON})
        )
        if response.status < 400:
            result += _listed(group_version, msgspec.json.decode(response.body))
    return result


def _group_versions(document: dict[str, Any]) -> Iterator[str]:
    yield from document.get("versions") or ()
    for group in document.get("groups") or ():
        preferred = group.get("preferredVersion", {}).get("groupVersion")
        all_versions = [version["groupVersion"] for version in group.get("versions") or ()]
        yield from sorted(all_versions, key=lambda version: version != preferred)


def _listed(group_version: str, document: dict[str, Any]) -> Iterator[Kind]:
    group, version = kinds.parse_api_version(group_version)
    for resource in document.get("resources") or ():
        if "/" not in resource["name"]:
            where = (group, resource["kind"], resource["name"], version)
            yield _kind(*where, resource["namespaced"], resource)


def _kind(
    group: str, kind: str, plural: str, version: str, namespaced: bool, resource: dict[str, Any]
) -> Kind:
    return Kind(
        group,
        kind,
        plural,
        namespaced=namespaced,
        versions=(version,),
        short_names=tuple(resource.get("shortNames") or ()),
        categories=tuple(resource.get("categories") or ()),
        verbs=tuple(resource.get("verbs") or ()),
    )


class ObjectArgument(NamedTuple):
    """One object of a kind, or all of them if `name` is empty.

    Without a namespace, it is that of the session.
    """

    kind: Kind
    name: str = ""
    namespace: str = ""


def device_names(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names in words such as `device gpu-0/gpu-1`, or None for other types."""
    if not words:
        return None
    first, *rest = words
    if first in DEVICE_WORDS:
        return tuple(rest)
    parts = [word.partition("/") for word in words]
    if all(kind in DEVICE_WORDS and name for kind, _, name in parts):
        return tuple(name for _, _, name in parts)
    if any(word in DEVICE_WORDS for word in first.split(",")):
        raise WrongUsage("devices cannot be listed with other types: dray get devices")
    return None


async def resolve(words: Sequence[str], resources: Resources) -> list[ObjectArgument]:
    """Return the references that the words of the command line name, in their order."""
    if any("/" in word for word in words):
        return [await _single(word, resources) for word in words]
    types, *names = words
    kinds = [kind for name in types.split(",") for kind in await resources.named(name)]
    if not names:
        return [ObjectArgument(kind) for kind in {kind.preferred: kind for kind in kinds}.values()]
    return [ObjectArgument(kind, name) for kind in kinds for name in names]


async def _single(word: str, resources: Resources) -> ObjectArgument:
    type_name, slash, name = word.partition("/")
    if not slash or not name or "/" in name:
        raise WrongUsage(
            f"{word}: expected TYPE/NAME", "Write TYPE/NAME for every object, or TYPE NAME NAME."
        )
    return ObjectArgument((await resources.named(type_name))[0], name)


def require_names(references: Sequence[ObjectArgument], what: str) -> None:
    """Raise WrongUsage for references to all objects, which could be a mistake."""
    for reference in references:
        if not reference.name:
            raise WrongUsage(f"{what} needs a name: {reference.kind.plural}/NAME", "Or give --all.")
