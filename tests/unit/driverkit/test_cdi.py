"""Container device specs: written, read, merged."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dray.driverkit import cdi
from dray.driverkit.cdi import CdiError, DeviceNode, Edits, Hook, Mount

EVERYTHING = Edits(
    env={"A": "1", "B": "x=y"},
    device_nodes=(DeviceNode("/dev/null", host_path="/dev/zero", permissions="rw"),),
    mounts=(Mount("/srv/a", "/a"),),
    hooks=(Hook("createContainer", "/bin/true", ("true", "x")),),
)


def test_edits_survive_the_file(tmp_path: Path) -> None:
    cdi.write(tmp_path, "one.json", "example.com/claim", {"gpu-0": EVERYTHING})
    assert cdi.resolve(["example.com/claim=gpu-0"], [tmp_path]) == EVERYTHING


def test_spec_has_the_form_runtimes_read(tmp_path: Path) -> None:
    path = cdi.write(tmp_path, "one.json", "example.com/claim", {"gpu-0": Edits(env={"A": "1"})})
    assert json.loads(path.read_text("utf-8")) == {
        "cdiVersion": "0.5.0",
        "kind": "example.com/claim",
        "devices": [{"name": "gpu-0", "containerEdits": {"env": ["A=1"]}}],
    }


def test_edits_of_a_whole_spec_belong_to_each_of_its_devices(tmp_path: Path) -> None:
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {"env": ["COMMON=1"], "deviceNodes": [{"path": "/dev/nvidiactl"}]},
        "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}],
    }
    (tmp_path / "nvidia.json").write_text(json.dumps(spec), "utf-8")
    edits = cdi.resolve(["nvidia.com/gpu=0"], [tmp_path])
    assert edits.env == {"COMMON": "1"}
    assert [node.path for node in edits.device_nodes] == ["/dev/nvidiactl", "/dev/nvidia0"]


def test_what_two_devices_have_in_common_is_done_once() -> None:
    merged = cdi.merge([EVERYTHING, EVERYTHING, Edits(env={"A": "2"})])
    assert merged.device_nodes == EVERYTHING.device_nodes
    assert merged.mounts == EVERYTHING.mounts
    assert merged.env == {"A": "2", "B": "x=y"}


def test_a_device_that_no_spec_describes_is_named(tmp_path: Path) -> None:
    with pytest.raises(CdiError, match=r"no CDI spec describes example.com/claim=gone"):
        cdi.resolve(["example.com/claim=gone"], [tmp_path])


def test_a_broken_spec_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", "utf-8")
    with pytest.raises(CdiError, match=r"bad.json cannot be read"):
        cdi.resolve(["example.com/claim=gone"], [tmp_path])


QUALIFIED = re.compile(r"([A-Za-z][\w.-]*/[A-Za-z][\w-]*)=([A-Za-z0-9][\w.:-]*)", re.ASCII)
"""As CDI's pkg/parser, ParseQualifiedName."""


@pytest.mark.parametrize(
    "device", [pytest.param("device-0", id="usual"), pytest.param("0a:b.c", id="digit-first")]
)
def test_names_of_devices_are_qualified(device: str) -> None:
    assert QUALIFIED.fullmatch(cdi.qualified_name("vendor.com/class", device))


def test_specs_of_other_drivers_may_be_yaml(tmp_path: Path) -> None:
    """Drivers that use the CDI library of Go write YAML."""
    text = """
cdiVersion: 0.5.0
kind: k8s.gpu.example.com/gpu
devices:
- name: common
  containerEdits: {env: [NODE=n1]}
containerEdits: {env: [VENDOR=example]}
"""
    (tmp_path / "k8s.gpu.example.com-gpu_common.yaml").write_text(text, "utf-8")
    (tmp_path / "notes.txt").write_text("no spec", "utf-8")
    edits = cdi.resolve(["k8s.gpu.example.com/gpu=common"], [tmp_path])
    assert edits.env == {"VENDOR": "example", "NODE": "n1"}


def test_yaml_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("{", "utf-8")
    with pytest.raises(cdi.CdiError, match=r"broken\.yaml cannot be read"):
        cdi.resolve(["a/b=c"], [tmp_path])


def test_a_broken_spec_of_another_driver_is_no_matter(tmp_path: Path) -> None:
    cdi.write(tmp_path, "mine.json", "example.com/claim", {"a": Edits(env={"A": "1"})})
    (tmp_path / "other.json").write_text("[]", "utf-8")
    assert cdi.resolve(["example.com/claim=a"], [tmp_path]).env == {"A": "1"}


def test_a_spec_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    for value in ("1", "2", "3"):
        cdi.write(tmp_path, "mine.json", "example.com/claim", {"a": Edits(env={"A": value})})
        assert cdi.resolve(["example.com/claim=a"], [tmp_path]).env == {"A": value}
