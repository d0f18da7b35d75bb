"""Reading device metadata inside a container."""

from __future__ import annotations

import json
import shutil
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
        device.name for device in devicemetadata.for_claim("one", "gpu", directory=tmp_path).devices
    ]
    assert names == ["a", "b"]
    assert len(devicemetadata.for_claim("one", "gpu", directory=tmp_path).requests) == 1
    only = devicemetadata.for_claim("one", "gpu", "b.example.com", directory=tmp_path)
    assert [device.name for device in only.devices] == ["b"]


def test_unknown_versions_are_skipped() -> None:
    text = document("v9", name="new") + document("v1alpha1", name="old")
    assert devicemetadata.read(text).devices[0].name == "old"


def test_the_first_known_version_is_used() -> None:
    text = document("v1beta1", name="beta") + document("v1alpha1", name="alpha")
    assert devicemetadata.read(text).devices[0].name == "beta"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "only nothing", id="empty"),
        pytest.param(document("v9"), "only metadata.resource.k8s.io/v9", id="unknown version"),
        pytest.param('{"kind": "DeviceMetadata"}', "does not say its apiVersion", id="no version"),
        pytest.param(document(kind="Other") + document(), "of kind Other", id="another kind"),
        pytest.param(document(requests="none") + document(), "of another form", id="malformed"),
        pytest.param(document()[:40], "not JSON", id="truncated"),
        pytest.param("[1]", "not an object", id="no object"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, words: str) -> None:
    with pytest.raises(MetadataError, match=words):
        devicemetadata.read(text)


def test_what_follows_the_first_known_version_is_not_looked_at() -> None:
    assert devicemetadata.read(document() + "{broken").devices[0].name == "gpu-0"


def test_all_requests_of_a_claim(tmp_path: Path) -> None:
    for request in ("gpu", "nic"):
        text = document(name=request).replace('"name": "gpu"', f'"name": "{request}"')
        put(tmp_path, f"resourceclaims/one/{request}/gpu.example.com-metadata.json", text)
    found = devicemetadata.for_claim("one", directory=tmp_path)
    assert [request.name for request in found.requests] == ["gpu", "nic"]


def test_network_data_is_typed() -> None:
    device = {"driver": "d", "pool": "p", "name": "nic-0"}
    data = {"interfaceName": "eth1", "ips": ["10.0.0.9/24"], "hardwareAddress": "02:00"}
    request = {"name": "nic", "devices": [{**device, "networkData": data}]}
    (found,) = devicemetadata.read(document(requests=[request])).devices
    assert found.network == devicemetadata.Network("eth1", ("10.0.0.9/24",), "02:00")


def test_no_file_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="no driver has put metadata into"):
        devicemetadata.for_claim("one", "gpu", directory=tmp_path)


def test_the_file_works_by_itself(tmp_path: Path) -> None:
    shutil.copy(devicemetadata.__file__, tmp_path / "copied.py")
    put(tmp_path, "resourceclaims/one/gpu/gpu.example.com-metadata.json", document())
    code = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import copied;"
        "found = copied.for_claim('one', directory=pathlib.Path(sys.argv[1]));"
        "print(found.devices[0].name, [m for m in sys.modules if m.startswith('dray')])"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "gpu-0 []"
