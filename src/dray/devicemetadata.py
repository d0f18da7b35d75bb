"""For workloads: the devices of this container, read from the files that drivers mount.

    from dray import devicemetadata

    for device in devicemetadata.for_claim("my-claim", "gpu").devices:
        print(device.name, device.attributes["uuid"])

A file is a stream of JSON documents, the same content in several versions; the first that is known
here is used, others are skipped. Needs nothing but Python: this file can be copied into an image by
itself. Format and paths are those of dynamic-resource-allocation's api/metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = [
    "DIRECTORY",
    "Device",
    "DeviceMetadata",
    "MetadataError",
    "Network",
    "Request",
    "documents",
    "for_claim",
    "for_template",
    "read",
]

DIRECTORY = Path("/var/run/kubernetes.io/dra-device-attributes")
CLAIMS, TEMPLATES = "resourceclaims", "resourceclaimtemplates"
SUFFIX = "-metadata.json"
KIND = "DeviceMetadata"
VERSIONS = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")

Value = int | bool | str | list[int] | list[bool] | list[str]


class MetadataError(Exception):
    """The metadata is missing or cannot be read; the message has the path."""


@dataclass(frozen=True)
class Network:
    """The interface, hardware address and IP addresses of a network device."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


@dataclass(frozen=True)
class Device:
    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Value] = field(default_factory=dict)
    network: Network | None = None


@dataclass(frozen=True)
class Request:
    """`name` is `request/alternative` where the claim offered alternatives."""

    name: str
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True)
class DeviceMetadata:
    """The metadata of a claim; `generation` grows with every update by a driver."""

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
    claim: str,
    request: str | None = None,
    driver: str | None = None,
    *,
    directory: Path = DIRECTORY,
) -> DeviceMetadata:
    """Return the metadata of a claim that the pod names: of one request, or of all."""
    return _read_files(directory / CLAIMS / claim, request, driver)


def for_template(
    pod_claim: str,
    request: str | None = None,
    driver: str | None = None,
    *,
    directory: Path = DIRECTORY,
) -> DeviceMetadata:
    """Return the metadata of a claim made from a template, by its name in the pod's spec."""
    return _read_files(directory / TEMPLATES / pod_claim, request, driver)


def read(text: str) -> DeviceMetadata:
    """Return the first document of a stream that has a supported version."""
    skipped = []
    for document in documents(text):
        version = document.get("apiVersion")
        if not isinstance(version, str):
            raise MetadataError("a document does not say its apiVersion")
        if version in VERSIONS:
            return _metadata(document)
        skipped.append(version)
    known = " or ".join(VERSIONS)
    raise MetadataError(f"no document of {known}, only {', '.join(skipped) or 'nothing'}")


def documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of a stream."""
    decoder = json.JSONDecoder()
    position = 0
    while rest := text[position:].lstrip():
        position = len(text) - len(rest)
        try:
            document, position = decoder.raw_decode(text, position)
        except ValueError as error:
            raise MetadataError(f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise MetadataError(f"not an object: {document!r}")
        yield document


def _read_files(folder: Path, request: str | None, driver: str | None) -> DeviceMetadata:
    """Merge the files of a claim."""
    paths = sorted(folder.glob(f"{request or '*'}/{driver or '*'}{SUFFIX}"))
    if not paths:
        wanted = folder / request if request else folder
        raise MetadataError(f"no driver has put metadata into {wanted}")
    found = [_read_file(path) for path in paths]
    requests = _merged(request for file in found for request in file.requests)
    generation = max(file.generation for file in found)
    return replace(found[0], requests=requests, generation=generation)


def _merged(requests: Iterable[Request]) -> tuple[Request, ...]:
    """Merge requests of the same name, with the devices of all drivers."""
    devices: dict[str, tuple[Device, ...]] = {}
    for request in requests:
        devices[request.name] = devices.get(request.name, ()) + request.devices
    return tuple(Request(name, found) for name, found in devices.items())


def _read_file(path: Path) -> DeviceMetadata:
    try:
        return read(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, MetadataError) as error:
        raise MetadataError(f"{path}: {error}") from error


def _metadata(document: Mapping[str, Any]) -> DeviceMetadata:
    if document.get("kind") != KIND:
        raise MetadataError(f"a document of kind {document.get('kind')}, not {KIND}")
    try:
        metadata = document.get("metadata") or {}
        return DeviceMetadata(
            claim=metadata.get("name", ""),
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            pod_claim=document.get("podClaimName"),
            generation=metadata.get("generation", 0),
            requests=tuple(map(_request, document.get("requests") or ())),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise MetadataError(f"a document of another form: {error!r}") from error


def _request(document: Mapping[str, Any]) -> Request:
    return Request(document["name"], tuple(map(_device, document.get("devices") or ())))


def _device(document: Mapping[str, Any]) -> Device:
    attributes = document.get("attributes") or {}
    network = document.get("networkData")
    return Device(
        driver=document["driver"],
        pool=document["pool"],
        name=document["name"],
        attributes={name: _value(attribute) for name, attribute in attributes.items()},
        network=_network(network) if network else None,
    )


def _network(document: Mapping[str, Any]) -> Network:
    return Network(
        interface_name=document.get("interfaceName", ""),
        ips=tuple(document.get("ips") or ()),
        hardware_address=document.get("hardwareAddress", ""),
    )


def _value(attribute: Mapping[str, Any]) -> Value:
    """An attribute has exactly one of int, bool, string, version and their lists."""
    (value,) = attribute.values()
    found: Value = value
    return found
