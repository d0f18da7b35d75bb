"""For workloads: what the devices of this container are, read from the files that drivers mount.

    from dray import devicemetadata

    for device in devicemetadata.for_claim("my-claim", "gpu").devices:
        print(device.name, device.attributes["uuid"])

A file is a stream of JSON documents, the same content in several versions; the first that is known
here is used, others are skipped. Needs nothing but Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "DIRECTORY",
    "Device",
    "DeviceMetadata",
    "MetadataError",
    "Request",
    "for_claim",
    "for_template",
    "read",
]

DIRECTORY = Path("/var/run/kubernetes.io/dra-device-attributes")
CLAIMS, TEMPLATES = "resourceclaims", "resourceclaimtemplates"
SUFFIX = "-metadata.json"
_VERSIONS = frozenset(
    {"metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"}
)  # fmt: skip

Value = int | bool | str | list[int] | list[bool] | list[str]


class MetadataError(Exception):
    """There is no metadata, or none in a version that can be read here."""


@dataclass(frozen=True)
class Device:
    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Value] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """`name` is `request/alternative` where the claim offered alternatives."""

    name: str
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class DeviceMetadata:
    claim: str
    namespace: str
    uid: str
    pod_claim: str | None
    generation: int
    requests: tuple[Request, ...]

    @property
    def devices(self) -> list[Device]:
        """The devices of all requests."""
        return [device for request in self.requests for device in request.devices]


def for_claim(
    claim: str, request: str, driver: str | None = None, *, directory: Path = DIRECTORY
) -> DeviceMetadata:
    """Of a claim that the pod names, by that name."""
    return _of_request(directory / CLAIMS / claim / request, driver)


def for_template(
    pod_claim: str, request: str, driver: str | None = None, *, directory: Path = DIRECTORY
) -> DeviceMetadata:
    """Of a claim made from a template, by the name it has in the pod's spec."""
    return _of_request(directory / TEMPLATES / pod_claim / request, driver)


def read(text: str) -> DeviceMetadata:
    """The first document of a stream that has a version known here."""
    seen = []
    for document in _documents(text):
        if document.get("apiVersion") in _VERSIONS:
            return _metadata(document)
        seen.append(str(document.get("apiVersion")))
    raise MetadataError(f"no version that can be read here, only {', '.join(seen) or 'nothing'}")


def _of_request(folder: Path, driver: str | None) -> DeviceMetadata:
    """One driver's file, or those of all drivers as one."""
    paths = [folder / f"{driver}{SUFFIX}"] if driver else sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise MetadataError(f"no driver has put metadata into {folder}")
    found = [_read_file(path) for path in paths]
    first = found[0]
    requests = tuple(request for each in found for request in each.requests)
    return DeviceMetadata(
        first.claim, first.namespace, first.uid, first.pod_claim, first.generation, requests
    )


def _read_file(path: Path) -> DeviceMetadata:
    try:
        return read(path.read_text("utf-8"))
    except (OSError, ValueError, MetadataError) as error:
        raise MetadataError(f"{path}: {error}") from error


def _documents(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    position = 0
    while rest := text[position:].lstrip():
        position = len(text) - len(rest)
        document, position = decoder.raw_decode(text, position)
        yield document


def _metadata(document: Mapping[str, Any]) -> DeviceMetadata:
    metadata = document.get("metadata") or {}
    return DeviceMetadata(
        claim=metadata.get("name", ""),
        namespace=metadata.get("namespace", ""),
        uid=metadata.get("uid", ""),
        pod_claim=document.get("podClaimName"),
        generation=metadata.get("generation", 0),
        requests=tuple(map(_request, document.get("requests") or ())),
    )


def _request(document: Mapping[str, Any]) -> Request:
    devices: Sequence[Mapping[str, Any]] = document.get("devices") or ()
    return Request(document["name"], tuple(map(_device, devices)))


def _device(document: Mapping[str, Any]) -> Device:
    attributes = document.get("attributes") or {}
    return Device(
        driver=document["driver"],
        pool=document["pool"],
        name=document["name"],
        attributes={name: _value(attribute) for name, attribute in attributes.items()},
        network=document.get("networkData") or {},
    )


def _value(attribute: Mapping[str, Any]) -> Value:
    """An attribute has exactly one of int, bool, string, version and their lists."""
    value: Value = next(iter(attribute.values()))
    return value
