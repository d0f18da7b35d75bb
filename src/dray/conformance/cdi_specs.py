"""The rules of the Container Device Interface (CDI) for names and spec files, as functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

VERSIONS: Final = (*("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"),)
HOOKS: Final = (
    *("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"),
)
SUFFIXES: Final = (".json", ".yaml")
_KIND: Final = r"[A-Za-z](?:[\w.-]*[A-Za-z0-9])?/[A-Za-z](?:[\w.-]*[A-Za-z0-9])?"
_DEVICE: Final = r"[A-Za-z0-9](?:[\w.:-]*[A-Za-z0-9])?"
QUALIFIED: Final = re.compile(f"{_KIND}={_DEVICE}", re.ASCII)
_KIND_ONLY: Final = re.compile(_KIND, re.ASCII)
_DEVICE_ONLY: Final = re.compile(_DEVICE, re.ASCII)


class SpecUnreadable(ValueError):
    """A spec file that is not JSON or YAML with an object in it."""


def files(directory: Path) -> list[Path]:
    """Return the spec files of a directory, as runtimes find them."""
    return sorted(path for path in directory.glob("*") if path.suffix in SUFFIXES)


def read(path: Path) -> dict[str, Any]:
    """Return the content of a spec file. Raises SpecUnreadable."""
    try:
        text = path.read_text("utf-8")
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SpecUnreadable(f"{path.name}: {error}") from error
    if not isinstance(document, dict):
        raise SpecUnreadable(f"{path.name} is not an object")
    return document


def devices(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the qualified names of a spec's devices with their edits."""
    for device in _objects(spec.get("devices")):
        edits = device.get("containerEdits")
        yield f"{spec.get('kind')}={device.get('name')}", edits if isinstance(edits, dict) else {}


def problems(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a spec by the rules of CDI."""
    if spec.get("cdiVersion") not in VERSIONS:
        yield f"cdiVersion is {spec.get('cdiVersion')!r}; known are {', '.join(VERSIONS)}"
    if not _KIND_ONLY.fullmatch(str(spec.get("kind"))):
        yield f"kind is {spec.get('kind')!r}, not vendor/class"
    if not spec.get("devices"):
        yield "it has no devices"
    names = [device.get("name") for device in _objects(spec.get("devices"))]
    for name in names:
        if not _DEVICE_ONLY.fullmatch(str(name)):
            yield f"the device name {name!r} is not valid"
    if len(names) != len(set(names)):
        yield "a device name is used more than once"
    yield from edits_problems(spec.get("containerEdits") or {})
    for name, edits in devices(spec):
        if not any(edits.values()):
            yield f"{name} changes nothing: its containerEdits are empty"
        yield from edits_problems(edits)


def edits_problems(edits: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with container edits."""
    for entry in edits.get("env") or ():
        if not str(entry).partition("=")[0] or "=" not in str(entry):
            yield f"the variable {entry!r} is not NAME=VALUE"
    for node in _objects(edits.get("deviceNodes")):
        if not str(node.get("path", "")).startswith("/"):
            yield f"the path of a device node is {node.get('path')!r}"
        if set(node.get("permissions") or "") - set("rwm"):
            yield f"the permissions of {node.get('path')} are {node.get('permissions')!r}"
    for mount in _objects(edits.get("mounts")):
        for field in ("hostPath", "containerPath"):
            if not mount.get(field):
                yield f"a mount has no {field}"
    for hook in _objects(edits.get("hooks")):
        if hook.get("hookName") not in HOOKS:
            yield f"hookName is {hook.get('hookName')!r}; there are {', '.join(HOOKS)}"
        if not hook.get("path"):
            yield "a hook has no path"


def host_paths(edits: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files of the host that edits need: sources of mounts, and programs of hooks."""
    for mount in _objects(edits.get("mounts")):
        yield str(mount.get("hostPath"))
    for hook in _objects(edits.get("hooks")):
        yield str(hook.get("path"))


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value or () if isinstance(item, Mapping)]
