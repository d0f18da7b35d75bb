"""Checks of device metadata files, for drivers that mount them into containers."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from dray import devicemetadata
from dray.api.types.dra import ResourceClaim
from dray.api.well_known import POD_CLAIM_NAME_ANNOTATION
from dray.conformance.check import CheckFailed, Group, NotApplicable
from dray.conformance.checks import cdi_files
from dray.conformance.checks.cdi_files import Described
from dray.conformance.claims import REQUEST, ClaimPlan
from dray.conformance.site import Site
from dray.devicemetadata import DeviceMetadata, MetadataError
from dray.driverkit import metadata

GROUP = Group("metadata", "dynamic-resource-allocation/api/metadata; kubeletplugin: metadata.go")
NAME = "with-metadata"
TEMPLATE = {POD_CLAIM_NAME_ANNOTATION: "devices"}


class MountedFile(NamedTuple):
    host: Path
    container: PurePosixPath


def _files(found: Described) -> list[MountedFile]:
    """Return the metadata files of a claim. Raises NotApplicable where there are none."""
    mounts = [
        MountedFile(Path(str(mount.get("hostPath"))), PurePosixPath(str(mount["containerPath"])))
        for edits in found.edits()
        for mount in edits.get("mounts") or ()
        if str(mount.get("containerPath")).startswith(str(metadata.CONTAINER_DIRECTORY))
    ]
    if not mounts:
        raise NotApplicable("the driver mounts no device metadata")
    return mounts


def _read(file: MountedFile) -> DeviceMetadata:
    try:
        return devicemetadata.read(file.host.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, MetadataError) as error:
        raise CheckFailed(f"{file.host.name}: {error}") from error


@GROUP.check(
    "readable",
    "Metadata files are streams of JSON with a document of a known version.",
    "Write one document of metadata.resource.k8s.io/v1beta1 or v1alpha1 after the other.",
)
async def readable(site: Site) -> None:
    async with cdi_files.described(site) as found:
        for file in _files(found):
            _read(file)


@GROUP.check(
    "content",
    "Metadata names the claim, its request and its devices with their published attributes.",
    "Fill in the document from the claim's allocation and the published device.",
)
async def content(site: Site) -> None:
    driver = (await site.registration()).name
    published = {
        (one.spec.pool.name, device.name): device
        for one in await site.published()
        for device in one.spec.devices
    }
    async with cdi_files.described(site) as found:
        for file in _files(found):
            document = _read(file)
            if not document.devices or not document.claim or not document.uid:
                raise CheckFailed(f"{file.host.name} lacks the claim or its devices")
            for described in document.devices:
                device = published.get((described.pool, described.name))
                if device is None or described.driver != driver:
                    raise CheckFailed(f"{file.host.name} has an unknown device: {described}")
                for name, attribute in device.attributes.items():
                    value = next(iter(msgspec.to_builtins(attribute).values()))
                    if described.attributes.get(name) != value:
                        seen = described.attributes.get(name)
                        raise CheckFailed(
                            f"{described.name}: attribute {name} is {seen!r}, published {value!r}"
                        )


def _expected(site_driver: str, plan: ClaimPlan) -> PurePosixPath:
    claim = msgspec.convert(
        {"metadata": {"name": plan.name, "annotations": dict(plan.annotations)}}, ResourceClaim
    )
    return metadata.container_path(site_driver, claim, REQUEST)


@GROUP.check(
    "path",
    "Containers find metadata by the claim's name, or by its name in the pod for templates.",
    "Mount it at resourceclaims/CLAIM/REQUEST or resourceclaimtemplates/NAME/REQUEST.",
)
async def path(site: Site) -> None:
    driver = (await site.registration()).name
    for chosen in ({}, TEMPLATE):
        plan = ClaimPlan(name=NAME, annotations=chosen)
        async with cdi_files.described(site, plan) as found:
            expected = _expected(driver, plan)
            mounted = [file.container for file in _files(found)]
            if mounted != [expected]:
                seen = ", ".join(map(str, mounted))
                raise CheckFailed(f"mounted at {seen}; expected {expected}")


@GROUP.check(
    "removed",
    "After a claim is unprepared its metadata files are gone.",
    "Delete the claim's files in NodeUnprepareResources.",
)
async def removed(site: Site) -> None:
    async with cdi_files.described(site) as found:
        files = _files(found)
    if left := [str(file.host) for file in files if file.host.exists()]:
        raise CheckFailed(f"still there: {', '.join(left)}")
