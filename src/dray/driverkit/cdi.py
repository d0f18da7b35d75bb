"""Container Device Interface (CDI) specs: the changes that a device makes to a container.

A driver describes edits; the kit writes them as one spec file for each claim. A node agent reads
the files again and merges the edits of all devices that a container uses.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from dray import durable_files
from dray.api.types.meta import JsonObject

VERSION: Final = "0.5.0"
"""The first version with device names that begin with a digit, as those made from a uid may."""


_READERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    ".json": json.loads,
    ".yaml": yaml.safe_load,
}


class CdiError(ValueError):
    """A device that no spec describes, or a spec that cannot be read."""


class SpecPart(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A part of a CDI spec, with the names of its fields on disk."""


class DeviceNode(SpecPart, frozen=True):
    path: str
    host_path: str = ""
    type: str = ""
    major: int | None = None
    minor: int | None = None
    permissions: str = ""


class Mount(SpecPart, frozen=True):
    host_path: str
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "bind")


class Hook(SpecPart, frozen=True):
    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class _WrittenEdits(SpecPart, frozen=True):
    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()


class Edits(msgspec.Struct, frozen=True):
    """The changes that one or more devices make to a container."""

    env: Mapping[str, str] = {}
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def written(self) -> JsonObject:
        env = tuple(f"{name}={value}" for name, value in self.env.items())
        edits = _WrittenEdits(env, self.device_nodes, self.mounts, self.hooks)
        made: JsonObject = msgspec.to_builtins(edits)
        return made

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Edits:
        edits = msgspec.convert(written, _WrittenEdits)
        pairs = (entry.partition("=") for entry in edits.env)
        env = {name: value for name, _, value in pairs}
        return cls(env, edits.device_nodes, edits.mounts, edits.hooks)


NO_EDITS: Final = Edits()


def merge(all_edits: Iterable[Edits]) -> Edits:
    """Merge the edits of several devices, without duplicates; the last value of a variable wins."""
    merged = list(all_edits)
    return Edits(
        {name: value for edits in merged for name, value in edits.env.items()},
        tuple(dict.fromkeys(node for edits in merged for node in edits.device_nodes)),
        tuple(dict.fromkeys(mount for edits in merged for mount in edits.mounts)),
        tuple(dict.fromkeys(hook for edits in merged for hook in edits.hooks)),
    )


def qualified_name(kind: str, device: str) -> str:
    """Return `vendor.com/class=device`, the name by which a runtime finds the edits."""
    return f"{kind}={device}"


def write(directory: Path, file_name: str, kind: str, devices: Mapping[str, Edits]) -> Path:
    """Write one spec file for some devices of a kind, whole or not at all."""
    spec = {
        "cdiVersion": VERSION,
        "kind": kind,
        "devices": [
            {"name": name, "containerEdits": edits.written()} for name, edits in devices.items()
        ],
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / file_name
    content = json.dumps(spec, indent=2).encode()
    # After a reboot everything is prepared anew, and so is this.
    durable_files.replace_file(path, content, mode=0o644, durable=False, single_writer=True)
    return path


def resolve(names: Iterable[str], directories: Iterable[Path]) -> Edits:
    """Return the merged edits of devices from the spec files in some directories; later ones win.

    Raises CdiError for a device without a spec. Unreadable specs matter only to their own devices.
    """
    wanted = list(names)
    if not wanted:
        return NO_EDITS
    found: dict[str, Edits] = {}
    unreadable: list[str] = []
    for path, stamp in _files(directories):
        try:
            found.update(_devices_in(path, stamp))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
            unreadable.append(f"; CDI spec {path} cannot be read: {error}")
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CdiError(f"no CDI spec describes {', '.join(missing)}{''.join(unreadable)}")
    return merge(found[name] for name in wanted)


_Stamp = tuple[int, int, int, int]
"""The inode, the time and the size of a file, and the user that it belongs to."""


def _files(directories: Iterable[Path]) -> Iterator[tuple[str, _Stamp]]:
    for directory in directories:
        for entry in _entries(directory):
            if entry.name.endswith(tuple(_READERS)):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat()
                    stamp = (found.st_ino, found.st_mtime_ns, found.st_size, found.st_uid)
                    yield entry.path, stamp


def _entries(directory: Path) -> Sequence[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)
    return ()


@functools.lru_cache(maxsize=4096)
def _devices_in(path: str, stamp: _Stamp) -> Mapping[str, Edits]:
    """Read a spec file, cached per version of it: every container of a node reads all of them."""
    *_, owner = stamp
    if owner not in (0, os.geteuid()):
        raise ValueError(f"it belongs to user {owner}, neither root nor the user of this process")
    spec = _READERS[os.path.splitext(path)[1]](Path(path).read_bytes())
    if not isinstance(spec, dict):
        raise ValueError("it is not an object")
    return dict(_devices_of(spec))


def _devices_of(spec: JsonObject) -> Iterable[tuple[str, Edits]]:
    """Return the edits of every device of a spec, with those of the spec as a whole."""
    common = Edits.read(spec.get("containerEdits") or {})
    for device in spec["devices"]:
        edits = merge([common, Edits.read(device.get("containerEdits") or {})])
        yield qualified_name(spec["kind"], device["name"]), edits
