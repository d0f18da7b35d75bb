"""The options of `dray node`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.cli.command_errors import WrongUsage
from dray.cli.components import node


def test_stand_ins_for_images_are_for_the_sandbox(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    file.write_text("images: [{name: a, command: [b]}]", "utf-8")
    assert node.images_of(str(file), "sandbox").find("a").command == ("b",)
    with pytest.raises(WrongUsage, match="--images is for --runtime sandbox"):
        node.images_of(str(file), "podman")
    with pytest.raises(WrongUsage, match=r"--images .*: No such file"):
        node.images_of(str(tmp_path / "none"), "sandbox")


def test_only_root_allows_privileged_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not node.allowed_privileged(False)
    with pytest.raises(WrongUsage, match="--allow-privileged"):
        node.allowed_privileged(True)


def test_a_root_directory_is_laid_out_as_a_kubelets(tmp_path: Path) -> None:
    root = tmp_path / "kubelet"
    made = node.agent_directories(tmp_path / "state", str(root), "", node.CDI_DIRECTORIES)
    assert made.registry == root / "plugins_registry"
    assert made.pod_resources == root / "pod-resources" / "kubelet.sock"
    assert (root / "plugins").is_dir()
    assert made.cdi == (Path("/etc/cdi"), Path("/var/run/cdi"))


def test_without_a_root_directory_drivers_register_where_they_do_with_a_kubelet(
    tmp_path: Path,
) -> None:
    made = node.agent_directories(tmp_path, "", "", ())
    assert made.registry == Path("/var/lib/kubelet/plugins_registry")
    assert made.pod_resources == tmp_path / "pod-resources" / "kubelet.sock"
    assert node.agent_directories(tmp_path, "", "/r", ("/a",)).registry == Path("/r")


def test_two_registries_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="--kubelet-root-dir has one already"):
        node.agent_directories(tmp_path, str(tmp_path / "root"), "/r", ())
    assert not (tmp_path / "root").exists()


def test_a_root_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WrongUsage, match=r"--kubelet-root-dir .*file"):
        node.agent_directories(tmp_path, str(tmp_path / "file"), "", ())
