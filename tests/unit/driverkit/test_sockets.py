"""Where the sockets of a driver are."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from dray.driverkit.sockets import PATH_MAX, Listener, Sockets

REGISTRY, PLUGINS = Path("/var/lib/kubelet/plugins_registry"), Path("/var/lib/kubelet/plugins")
UID = "0c3b7ad2-5c5f-4b5b-9f62-7f3a6b8d9e10"


def test_without_an_instance_names_are_those_of_kubelet_drivers() -> None:
    found = Sockets.of("gpu.example.com", REGISTRY, PLUGINS)
    assert found.registration == REGISTRY / "gpu.example.com-reg.sock"
    assert found.plugin == PLUGINS / "gpu.example.com" / "dra.sock"


def test_an_instance_is_part_of_both_names() -> None:
    found = Sockets.of("gpu.example.com", REGISTRY, PLUGINS, UID)
    assert found.registration == REGISTRY / f"gpu.example.com-{UID}-reg.sock"
    assert found.plugin == PLUGINS / "gpu.example.com" / f"dra-{UID}.sock"


@pytest.mark.parametrize("length", [15, 25, 40, 63])
def test_paths_are_never_too_long_for_a_socket(length: int) -> None:
    driver = "d" * (length - 12) + ".example.com"
    found = Sockets.of(driver, REGISTRY, PLUGINS, UID)
    assert len(str(found.registration)) <= PATH_MAX
    assert len(str(found.plugin)) <= PATH_MAX
    assert found.registration.name.endswith("-reg.sock")
    assert found != Sockets.of(driver, REGISTRY, PLUGINS, UID[::-1])


def test_a_folder_that_leaves_no_room_is_named() -> None:
    with pytest.raises(ValueError, match="is too long for a socket: 107 bytes at most"):
        Listener(Path("/" + "x" * 120), lambda _server: None)


def test_a_successor_is_younger_and_alive() -> None:
    def bound(name: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(sockets[name].plugin))
        return made

    # Paths of sockets must be short, which pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        places = Path(folder)
        sockets = {name: Sockets.of("d.example.com", places, places, name) for name in ("a", "b")}
        sockets["a"].plugin.parent.mkdir()
        assert not sockets["a"].has_successor()
        with bound("a"):
            os.utime(sockets["a"].plugin, ns=(0, 0))
            with bound("b") as younger:
                assert not sockets["a"].has_successor()
                younger.listen()
                assert sockets["a"].has_successor()
                assert not sockets["b"].has_successor()
            assert not sockets["a"].has_successor()
