"""The rules of CDI: what each of them finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.conformance import cdi_specs
from dray.conformance.cdi_specs import SpecUnreadable


def spec(**changes: Any) -> dict[str, Any]:
    device = {"name": "gpu-0", "containerEdits": {"env": ["GPU=0"]}}
    return {"cdiVersion": "0.5.0", "kind": "gpu.example.com/claim", "devices": [device], **changes}


def with_edits(**edits: Any) -> dict[str, Any]:
    return spec(devices=[{"name": "gpu-0", "containerEdits": edits}])


def test_a_plain_spec_is_valid() -> None:
    assert list(cdi_specs.problems(spec())) == []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (spec(cdiVersion="0.1"), "cdiVersion is '0.1'"),
        (spec(kind="gpu"), "kind is 'gpu', not vendor/class"),
        (spec(kind="gpu.example.com/-x"), "kind is"),
        (spec(devices=[]), "it has no devices"),
        (spec(devices=[{"name": "a b", "containerEdits": {"env": ["A=1"]}}]), "'a b' is not valid"),
        (spec(devices=spec()["devices"] * 2), "used more than once"),
        (with_edits(), "changes nothing"),
        (with_edits(env=["GPU"]), "'GPU' is not NAME=VALUE"),
        (with_edits(env=["=1"]), "is not NAME=VALUE"),
        (with_edits(deviceNodes=[{"path": "dev/gpu0"}]), "'dev/gpu0'"),
        (with_edits(deviceNodes=[{"path": "/dev/gpu0", "permissions": "rx"}]), "'rx'"),
        (with_edits(mounts=[{"hostPath": "/lib/gpu"}]), "a mount has no containerPath"),
        (with_edits(hooks=[{"hookName": "later", "path": "/bin/true"}]), "'later'"),
        (with_edits(hooks=[{"hookName": "poststop"}]), "a hook has no path"),
    ],
)
def test_a_fault_is_named(wrong: dict[str, Any], text: str) -> None:
    assert text in "\n".join(cdi_specs.problems(wrong))


@pytest.mark.parametrize(
    ("name", "is_qualified"),
    [
        ("gpu.example.com/claim=1b2c-gpu-0", True),
        ("gpu.example.com/claim=gpu:0", True),
        ("gpu-0", False),
        ("/dev/gpu0", False),
        ("gpu.example.com/claim=", False),
        ("1gpu/claim=a", False),
        ("gpu.example.com/claim=gpu-0-", False),
    ],
)
def test_qualified_names(name: str, is_qualified: bool) -> None:
    assert bool(cdi_specs.QUALIFIED.fullmatch(name)) is is_qualified


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"kind": "a/b"}', "utf-8")
    (tmp_path / "b.yaml").write_text("kind: a/b\n", "utf-8")
    (tmp_path / "c.txt").write_text("kind: a/b\n", "utf-8")
    files = cdi_specs.files(tmp_path)
    assert [path.name for path in files] == ["a.json", "b.yaml"]
    assert [cdi_specs.read(path) for path in files] == [{"kind": "a/b"}] * 2


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_what_is_no_object_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, "utf-8")
    with pytest.raises(SpecUnreadable, match=r"a\.json"):
        cdi_specs.read(tmp_path / "a.json")


def test_host_paths_are_those_of_mounts_and_hooks() -> None:
    edits = {
        "deviceNodes": [{"path": "/dev/gpu0"}],
        "mounts": [{"hostPath": "/lib/gpu", "containerPath": "/lib/gpu"}],
        "hooks": [{"hookName": "poststop", "path": "/bin/true"}],
    }
    assert list(cdi_specs.host_paths(edits)) == ["/lib/gpu", "/bin/true"]
