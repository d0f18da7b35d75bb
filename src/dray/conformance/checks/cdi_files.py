"""Checks of CDI: the ids in answers, and the spec files behind them."""

from __future__ import annotations

import contextlib
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dray.conformance import cdi_specs
from dray.conformance.cdi_specs import SpecUnreadable
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.claims import ClaimPlan
from dray.conformance.site import Site

GROUP = Group("cdi", "Container Device Interface: SPEC.md; kubelet/pkg/apis/dra/v1: api.proto")
PLAIN = ClaimPlan()


class Described(NamedTuple):
    """The CDI ids of a prepared claim, and the spec files that existed then."""

    ids: list[str]
    specs: Mapping[Path, Mapping[str, Any]]

    def edits(self) -> Iterable[Mapping[str, Any]]:
        """Return the edits of the claim's devices, with those of their specs as a whole."""
        for spec in self.specs.values():
            named = dict(cdi_specs.devices(spec))
            if named.keys() & set(self.ids):
                yield spec.get("containerEdits") or {}
            yield from (edits for name, edits in named.items() if name in self.ids)

    def files(self) -> list[Path]:
        """Return the files with devices of the claim."""
        return [
            path
            for path, spec in self.specs.items()
            if dict(cdi_specs.devices(spec)).keys() & set(self.ids)
        ]


@contextlib.asynccontextmanager
async def described(site: Site, plan: ClaimPlan = PLAIN) -> AsyncIterator[Described]:
    """Prepare a claim and read the CDI files. Raises NotApplicable for a driver without CDI."""
    async with site.made(plan) as [claim]:
        answered = await site.devices_of(claim)
        ids = [name for device in answered for name in device.cdi_ids]
        if not ids:
            raise NotApplicable("the driver gives no CDI ids")
        specs = {}
        for path in cdi_specs.files(site.places.cdi):
            with contextlib.suppress(SpecUnreadable):
                specs[path] = cdi_specs.read(path)
        yield Described(ids, specs)


@GROUP.check(
    "ids",
    "CDI ids are fully qualified: vendor/class=device.",
    "Answer with qualified names, such as gpu.example.com/claim=1234-gpu-0.",
)
async def ids(site: Site) -> None:
    async with described(site) as found:
        for name in found.ids:
            if not cdi_specs.QUALIFIED.fullmatch(name):
                raise CheckFailed(f"the CDI id {name!r} is not qualified")


@GROUP.check(
    "complete",
    "Every CDI id of an answer is described by a file *.json or *.yaml in the CDI directory.",
    "Write the spec file before the call returns; use the directory {cdi}.",
)
async def complete(site: Site) -> None:
    async with described(site) as found:
        known = {name for spec in found.specs.values() for name, _ in cdi_specs.devices(spec)}
        if missing := [name for name in found.ids if name not in known]:
            files = ", ".join(path.name for path in found.specs) or "no files"
            raise CheckFailed(f"no file describes {', '.join(missing)}; there are {files}")


@GROUP.check(
    "valid",
    "Spec files follow the CDI specification.",
    "Correct the named field, and let the CDI library of your language write the file.",
)
async def valid(site: Site) -> None:
    async with described(site):
        for path in cdi_specs.files(site.places.cdi):
            try:
                wrong = next(cdi_specs.problems(cdi_specs.read(path)), None)
            except SpecUnreadable as error:
                raise CheckFailed(str(error)) from error
            if wrong:
                raise CheckFailed(f"{path.name}: {wrong}")


@GROUP.check(
    "unambiguous",
    "A CDI device is described by one file: runtimes refuse devices in conflict.",
    "Put the claim's uid into the names of devices and files.",
)
async def unambiguous(site: Site) -> None:
    async with site.made(PLAIN) as [other], described(site) as found:
        await site.devices_of(other)
        names = Counter(
            name for spec in found.specs.values() for name, _ in cdi_specs.devices(spec)
        )
        if twice := [name for name, number in names.items() if number > 1]:
            raise CheckFailed(f"described more than once: {', '.join(twice)}")


@GROUP.check(
    "host-files",
    "Files that edits mount into containers, and programs of hooks, exist on the node.",
    "Create the file before the call returns; a container with it cannot start otherwise.",
)
async def host_files(site: Site) -> None:
    async with described(site) as found:
        for edits in found.edits():
            for path in cdi_specs.host_paths(edits):
                if not Path(path).exists():
                    raise CheckFailed(f"{path} does not exist")


@GROUP.check(
    "permissions",
    "Spec files are written by their owner alone: they run programs as root.",
    "Create the files with mode 0644 or less.",
)
async def permissions(site: Site) -> None:
    async with described(site) as found:
        for path in found.files():
            mode = path.stat().st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise CheckFailed(f"{path.name} has the mode {stat.filemode(mode)}")


@GROUP.check(
    "removed",
    "After a claim is unprepared its spec files are gone.",
    "Delete in NodeUnprepareResources what NodePrepareResources has written.",
)
async def removed(site: Site) -> None:
    before = set(cdi_specs.files(site.places.cdi))
    async with site.made(PLAIN) as [claim]:
        await site.devices_of(claim)
        await site.released(claim)
        if left := sorted(path.name for path in set(cdi_specs.files(site.places.cdi)) - before):
            raise CheckFailed(f"still there: {', '.join(left)}")
