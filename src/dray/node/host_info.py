"""Describes the local host as a Node: its capacity and system information."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus, NodeSystemInfo

MAX_PODS: Final = 110
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def node(name: str, labels: dict[str, str]) -> Node:
    """Return the Node of the local host, with its whole capacity as allocatable."""
    machine = platform.machine()
    architecture = _ARCHITECTURES.get(machine, machine)
    memory_kib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1024
    sizes = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory_kib}Ki", "pods": str(MAX_PODS)}
    info = NodeSystemInfo(
        machine_id=_first_line("/etc/machine-id"),
        boot_id=_first_line("/proc/sys/kernel/random/boot_id"),
        kernel_version=platform.release(),
        operating_system="linux",
        architecture=architecture,
    )
    known = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture,
    }
    status = NodeStatus(capacity=sizes, allocatable=sizes, node_info=info)
    return Node(metadata=ObjectMeta(name=name, labels={**known, **labels}), status=status)


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text("utf-8").partition("\n")[0]
    except OSError:
        return ""
