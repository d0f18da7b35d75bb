"""Reading device metadata inside a container."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray import devicemetadata
from dray.devicemetadata import MetadataError


def document(version: str = "v1beta1", name: str = "gpu-0", **fields: Any) -> str:
    device = {
        "driver": "gpu.example.com",
        "pool": "n1",
        "name": name,
        "attributes": {
            "uuid": {"string": "GPU-1"},
            "index": {"int": 3},
            "roots": {"strings": ["a"]},
        },
    }
    body = {
        "kind": "DeviceMetadata",
        "apiVersion": f"metadata.resource.k8s.io/{version}",
        "metadata": {"name": "one", "namespace": "default", "uid": "u1", "generation": 1},
        "requests": [{"name": "gpu", "devices": [device]}],
        **fields,
    }
    return json.dumps(body, indent=2) + "\n"


def put(directory: Path, path: str, text: str) -> None:
    target = directory / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")


def test_of_a_claim_by_its_name(tmp_path: Path) -> None:
    put(tmp_path, "resourceclaims/one/gpu/gpu.example.com-metadata.json", document())
    found = devicemetadata.for_claim("one", "gpu", directory=tmp_path)
    (device,) = found.devices
    assert (found.claim, found.uid, found.pod_claim) == ("one", "u1", None)
    assert device.attributes == {"uuid": "GPU-1", "index": 3, "roots": ["a"]}


def test_of_a_template_by_the_name_in_the_pod(tmp_path: Path) -> None:
    text = document(podClaimName="mine")
    put(tmp_path, "resourceclaimtemplates/mine/gpu/gpu.example.com-metadata.json", text)
    assert devicemetadata.for_template("mine", "gpu", directory=tmp_path).pod_claim == "mine"


def test_several_drivers_of_one_request_are_read_together(tmp_path: Path) -> None:
    for driver in ("a.example.com", "b.example.com"):
        text = document(name=driver[0])
        put(tmp_path, f"resourceclaims/one/gpu/{driver}-metadata.json", text)
    names = [
        each.name for each in devicemetadata.for_claim("one", "gpu", directory=tmp_path).devices
    ]
    assert names == ["a", "b"]
    only = devicemetadata.for_claim("one", "gpu", "b.example.com", directory=tmp_path)
    assert [each.name for each in only.devices] == ["b"]


def test_unknown_versions_are_skipped() -> None:
    text = document("v9", name="new") + document("v1alpha1", name="old")
    assert devicemetadata.read(text).devices[0].name == "old"


def test_the_first_known_version_is_used() -> None:
    text = document("v1beta1", name="beta") + document("v1alpha1", name="alpha")
    assert devicemetadata.read(text).devices[0].name == "beta"


@pytest.mark.parametrize("text", ["", document("v9")])
def test_nothing_readable_is_an_error(text: str) -> None:
    with pytest.raises(MetadataError, match="no version that can be read here"):
        devicemetadata.read(text)


def test_no_file_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="no driver has put metadata into"):
        devicemetadata.for_claim("one", "gpu", directory=tmp_path)


def test_it_needs_nothing_but_python() -> None:
    code = (
        "import sys, dray.devicemetadata; print([m for m in sys.modules if m.startswith('dray.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['dray.devicemetadata']"
