"""Device metadata files: written on the node, mounted into containers through CDI.

Paths, names and content are those of dynamic-resource-allocation's kubeletplugin and api/metadata;
`dray.devicemetadata` reads the files inside the container.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

import msgspec

from dray import devicemetadata, durable_files
from dray.api.types.dra import DeviceAttribute, NetworkDeviceData, ResourceClaim
from dray.api.well_known import POD_CLAIM_NAME_ANNOTATION
from dray.driverkit import cdi
from dray.driverkit.cdi import Edits, Mount

CONTAINER_DIRECTORY: Final = PurePosixPath("/var/run/kubernetes.io/dra-device-attributes")
VERSIONS: Final = ("metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1")
FOLDER: Final = "dra-device-metadata"
FILE_NAME: Final = "metadata.json"
NAME_MAX: Final = 255
"""The longest name of a file. Names of claims with their namespaces may be longer."""


class DescribedDevice(NamedTuple):
    """A prepared device and its metadata for the container."""

    request: str
    pool: str
    name: str
    attributes: Mapping[str, DeviceAttribute]
    network: NetworkDeviceData | None = None


class MetadataFiles:
    """The metadata of one driver's claims on one node."""

    def __init__(self, driver: str, data_directory: Path, cdi_directory: Path) -> None:
        self._driver = driver
        self._folder = data_directory / FOLDER
        self._cdi_directory = cdi_directory

    def write(self, claim: ResourceClaim, devices: Sequence[DescribedDevice]) -> dict[str, str]:
        """Write a file for every request; return the CDI devices that mount them, by request."""
        by_request: dict[str, list[DescribedDevice]] = {}
        for device in devices:
            # The name of the request without its chosen subrequest.
            by_request.setdefault(device.request.partition("/")[0], []).append(device)
        return {
            request: self._write_request(claim, request, described)
            for request, described in by_request.items()
        }

    def set_network(
        self, namespace: str, name: str, device: str, network: NetworkDeviceData
    ) -> None:
        """Write new network data of a device, as a new generation of the file.

        In place, because running containers have mounted this very file.
        """
        for path in self._claim_folder(namespace, name).glob(f"*/{FILE_NAME}"):
            content = "".join(_with_network(path.read_text("utf-8"), device, network))
            with path.open("r+b") as file:
                file.write(content.encode())
                file.truncate()

    def remove(self, namespace: str, name: str, uid: str) -> None:
        shutil.rmtree(self._claim_folder(namespace, name), ignore_errors=True)
        for path in self._cdi_directory.glob(f"{self._driver}_metadata_{uid}_*.json"):
            path.unlink(missing_ok=True)

    def _write_request(
        self, claim: ResourceClaim, request: str, devices: Sequence[DescribedDevice]
    ) -> str:
        metadata = claim.metadata
        path = self._claim_folder(metadata.namespace, metadata.name) / request / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        content = "".join(self._document(claim, version, devices) for version in VERSIONS)
        durable_files.replace_file(
            path, content.encode(), mode=0o644, durable=False, single_writer=True
        )
        target = container_path(self._driver, claim, request)
        mount = Mount(str(path), str(target), ("ro", "bind"))
        kind, device = f"{self._driver}/metadata", f"{metadata.uid}_{request}"
        file_name = f"{self._driver}_metadata_{metadata.uid}_{request}.json"
        cdi.write(self._cdi_directory, file_name, kind, {device: Edits(mounts=(mount,))})
        return cdi.qualified_name(kind, device)

    def _document(
        self, claim: ResourceClaim, version: str, devices: Iterable[DescribedDevice]
    ) -> str:
        metadata = claim.metadata
        owner = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
        document: dict[str, Any] = {
            "kind": "DeviceMetadata",
            "apiVersion": version,
            "metadata": {**owner, "generation": 1},
        }
        pod_claim = metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)
        if pod_claim is not None:
            document["podClaimName"] = pod_claim
        document["requests"] = self._requests(devices)
        return _text(document)

    def _requests(self, devices: Iterable[DescribedDevice]) -> list[dict[str, Any]]:
        requests: dict[str, list[dict[str, Any]]] = {}
        for device in devices:
            described = {"driver": self._driver, "pool": device.pool, "name": device.name}
            if device.attributes:
                described["attributes"] = msgspec.to_builtins(device.attributes)
            if device.network is not None:
                described["networkData"] = msgspec.to_builtins(device.network)
            requests.setdefault(device.request, []).append(described)
        return [{"name": name, "devices": listed} for name, listed in requests.items()]

    def _claim_folder(self, namespace: str, name: str) -> Path:
        folder = f"{namespace}_{name}"
        if len(folder) > NAME_MAX:
            folder = hashlib.sha256(folder.encode()).hexdigest()
        return self._folder / folder


def container_path(driver: str, claim: ResourceClaim, request: str) -> PurePosixPath:
    """Return the path in the container: by the claim's name, or by the name in the pod's spec."""
    pod_claim = claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)
    if pod_claim:
        parent = CONTAINER_DIRECTORY / "resourceclaimtemplates" / pod_claim
    else:
        parent = CONTAINER_DIRECTORY / "resourceclaims" / claim.metadata.name
    return parent / request / f"{driver}-metadata.json"


def _with_network(text: str, device: str, network: NetworkDeviceData) -> Iterator[str]:
    for document in devicemetadata.documents(text):
        for entry in (entry for request in document["requests"] for entry in request["devices"]):
            if entry["name"] == device:
                entry["networkData"] = msgspec.to_builtins(network)
        document["metadata"]["generation"] += 1
        yield _text(document)


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
