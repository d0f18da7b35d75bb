"""Changes that a person makes from the page, each with the person's identity.

Whether it is allowed is decided by the API server when it is done. Which buttons the page shows
follows from reviews of the person's access; those are POSTs that write nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dray.api import errors, kinds, well_known
from dray.api.kinds import Kind
from dray.api.types.meta import JsonObject
from dray.client.api_client import Client
from dray.ui.pages.objects import device_page
from dray.ui.pages.page_errors import PageError
from dray.ui.pages.viewer import Viewer

MADE_HERE: Final = "dray.dev/dashboard"
"""The label of taint rules that were made from the page."""
EFFECTS: Final = (well_known.NO_SCHEDULE, well_known.NO_EXECUTE)
DEFAULT_KEY: Final = "dray.dev/maintenance"
RIGHTS_SECONDS: Final = 20.0
NAMESPACES_REVIEWED: Final = 100
_REVIEW: Final = kinds.served("authorization.k8s.io", "SelfSubjectAccessReview")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class ActionRights(msgspec.Struct, frozen=True, rename="camel"):
    """The actions that the page offers."""

    delete_pods: tuple[str, ...] = ()
    """Namespaces; "*" for all."""
    cordon: bool = False
    taint_devices: bool = False

    @property
    def any(self) -> bool:
        return bool(self.delete_pods) or self.cordon or self.taint_devices


NO_RIGHTS: Final = ActionRights()


class KnownRights:
    """The rights of people to act, asked again after a while."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[float, ActionRights]] = {}

    async def of(self, viewer: Viewer) -> ActionRights:
        """Return what a person may do; nothing where reviews are refused."""
        key, now = viewer.person.key, time.monotonic()
        found = self._known.get(key)
        if found is None or now - found[0] > RIGHTS_SECONDS:
            self._known = {
                other: value
                for other, value in self._known.items()
                if now - value[0] <= RIGHTS_SECONDS
            }
            found = self._known[key] = now, await _reviewed(viewer)
        return found[1]


async def _reviewed(viewer: Viewer) -> ActionRights:
    client = viewer.person.client
    try:
        everywhere, cordon, taint = await asyncio.gather(
            _may(client, "delete", kinds.POD),
            _may(client, "patch", kinds.NODE),
            _may(client, "create", kinds.DEVICE_TAINT_RULE),
        )
        namespaces: tuple[str, ...] = ("*",) if everywhere else ()
        if not everywhere:
            seen = [name for name in viewer.model.rights.of(kinds.POD) if name]
            seen = seen or [item.metadata.name for item in viewer.model.objects(kinds.NAMESPACE)]
            tried = sorted(seen)[:NAMESPACES_REVIEWED]
            may = await asyncio.gather(*(_may(client, "delete", kinds.POD, name) for name in tried))
            namespaces = tuple(name for name, is_so in zip(tried, may, strict=True) if is_so)
    except errors.StatusError:
        return NO_RIGHTS
    # A user may have the right to a kind that the server does not serve.
    return ActionRights(namespaces, cordon, taint and _served_rules(viewer) is not None)


async def _may(client: Client, verb: str, kind: Kind, namespace: str = "") -> bool:
    attributes = {
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        "namespace": namespace,
    }
    review = {**_REVIEW.type_meta, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(_REVIEW, review)
    return bool((answer.get("status") or {}).get("allowed"))


async def perform(viewer: Viewer, asked: Mapping[str, Any]) -> str:
    """Do what a page asks for; return what was done. Raises PageError, and the server's errors."""
    client = viewer.person.client
    match asked:
        case {"action": "delete-pod", "namespace": str(namespace), "name": str(name)}:
            await client.delete(kinds.POD, _name(name), _name(namespace))
            return f"pod {namespace}/{name} is deleted"
        case {"action": "cordon", "node": str(node)}:
            await client.patch(kinds.NODE, _name(node), {"spec": {"unschedulable": True}})
            return f"node {node} is cordoned"
        case {"action": "uncordon", "node": str(node)}:
            await client.patch(kinds.NODE, _name(node), {"spec": {"unschedulable": None}})
            return f"node {node} is uncordoned"
        case {"action": "taint-device", "device": str(device)}:
            return await _taint(viewer, device, asked)
        case {"action": "untaint-device", "device": str(device)}:
            return await _untaint(viewer, device, str(asked.get("key") or ""))
    raise PageError(400, "there is no such action, or something is missing in it")


def _name(text: str) -> str:
    """Return the name of an object. Raises PageError for one that could be a path."""
    if not text or len(text) > 253 or "/" in text or text in (".", ".."):
        raise PageError(400, "the name is not valid")
    return text


def _rules(viewer: Viewer) -> Kind:
    """Return the kind of taint rules in the version that the server has. Raises PageError."""
    found = _served_rules(viewer)
    if found is None:
        raise PageError(404, "the server has no DeviceTaintRules")
    return found


def _served_rules(viewer: Viewer) -> Kind | None:
    followed = (kind for kind, _ in viewer.model.rights.namespaces)
    return next((kind for kind in followed if kind.kind == kinds.DEVICE_TAINT_RULE.kind), None)


async def _taint(viewer: Viewer, key: str, asked: Mapping[str, Any]) -> str:
    device = device_page.device_id(key)
    taint_key = str(asked.get("key") or DEFAULT_KEY)
    effect = str(asked.get("effect") or well_known.NO_SCHEDULE)
    if effect not in EFFECTS:
        raise PageError(400, f"the effect is not one of {', '.join(EFFECTS)}")
    kind = _rules(viewer)
    body: JsonObject = {
        **kind.type_meta,
        "metadata": {
            "generateName": f"{_slug(str(device))}-",
            "labels": {MADE_HERE: "true"},
        },
        "spec": {
            "deviceSelector": device._asdict(),
            "taint": {"key": taint_key, "effect": effect},
        },
    }
    made = await viewer.person.client.create(kind, body)
    return f"device {device} is tainted by DeviceTaintRule {made['metadata']['name']}"


def _slug(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:60].strip("-") or "device"


async def _untaint(viewer: Viewer, key: str, taint_key: str) -> str:
    """Delete the rules that taint this device alone. Those for more devices stay."""
    device = device_page.device_id(key)
    kind, names = _rules(viewer), []
    for rule in list(viewer.model.objects(kind)):
        selector = rule.spec.device_selector
        if (
            selector is not None
            and (selector.driver, selector.pool, selector.device) == tuple(device)
            and taint_key in ("", rule.spec.taint.key)
        ):
            names.append(rule.metadata.name)
    if not names:
        raise PageError(
            404,
            f"no DeviceTaintRule is for device {device} alone",
            "Its driver taints it, or a rule for more devices does.",
        )
    for name in names:
        await viewer.person.client.delete(kind, name)
    return f"deleted DeviceTaintRule {', '.join(names)}"
