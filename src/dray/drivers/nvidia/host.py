"""The host of the GPUs: device nodes, capabilities, buses, and the vendor's files.

`root` is the path of the host's file system: `/`, or its mount point in the driver's container.
Returned paths are always those of the host.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from dray.drivers.nvidia.hardware import HardwareError

CAPABILITIES_FOLDER: Final = "/dev/nvidia-caps"
COMMON_NODES: Final = (
    "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
)  # fmt: skip
LIBRARIES: Final = (
    "libcuda", "libcudadebugger", "libnvcuvid", "libnvidia-allocator", "libnvidia-cfg",
    "libnvidia-encode", "libnvidia-gpucomp", "libnvidia-ml", "libnvidia-nvvm", "libnvidia-opencl",
    "libnvidia-opticalflow", "libnvidia-pkcs11", "libnvidia-pkcs11-openssl3",
    "libnvidia-ptxjitcompiler", "libnvidia-sandboxutils",
)  # fmt: skip
PROGRAMS: Final = (
    "nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
)  # fmt: skip
DEFAULT_LIBRARY_FOLDERS: Final = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64",
)  # fmt: skip
"""The linker's default directories."""
VENDOR_LIBRARY_FOLDERS: Final = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/opt/nvidia/lib64",
    "/home/kubernetes/bin/nvidia/lib64",
)  # fmt: skip
PROGRAM_FOLDERS: Final = ("/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin")
VENDOR_PROGRAM_FOLDERS: Final = (
    "/usr/local/nvidia/bin", "/opt/nvidia/bin", "/home/kubernetes/bin/nvidia/bin",
)  # fmt: skip
_MINOR = re.compile(r"^DeviceFileMinor:\s*(\d+)$", re.MULTILINE)
_MAJOR = re.compile(r"^\s*(\d+) nvidia-caps$", re.MULTILINE)
_LISTED = re.compile(r"=> (\S+)$", re.MULTILINE)
_PCI_ROOT = re.compile(r"pci[0-9a-f]{4}:[0-9a-f]{2}")
_ASK_SECONDS: Final = 10.0
_ENTER: Final = ("nsenter", "--target", "1", "--mount", "--")


class VendorFile(NamedTuple):
    """A file of the vendor, and a name under which programs open it."""

    real: PurePosixPath
    name: str

    @property
    def target(self) -> PurePosixPath:
        """The path in containers; not the link, which may point outside what containers see."""
        return self.real.with_name(self.name)


class Host:
    """`is_elsewhere`: this process runs in a container, and the machine's programs do not."""

    def __init__(self, root: Path = Path("/"), *, is_elsewhere: bool = False) -> None:
        self._root = root
        self.prefix: tuple[str, ...] = _ENTER if is_elsewhere else ()
        """Return the prefix of commands that run on the host itself."""

    @functools.cached_property
    def boot(self) -> str:
        """Return the boot id, which changes with every boot."""
        try:
            return self._read("/proc/sys/kernel/random/boot_id").strip()
        except HardwareError:
            return ""

    def common_nodes(self) -> list[str]:
        """Return the device nodes that every user of any GPU needs."""
        return [node for node in COMMON_NODES if self.sees(node).exists()]

    def gpu_node(self, minor: int) -> str:
        node = f"/dev/nvidia{minor}"
        if not self.sees(node).exists():
            raise HardwareError(f"there is no device node {node}")
        return node

    def capability_nodes(self, minor: int, instance: int, compute: int) -> list[str]:
        """Return the capability nodes of a GPU instance and compute instance; make missing ones."""
        folder = f"/proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{instance}"
        grants = (f"{folder}/access", f"{folder}/ci{compute}/access")
        return [self._capability_node(grant) for grant in grants]

    def _capability_node(self, grant: str) -> str:
        match = _MINOR.search(self._read(grant))
        if match is None:
            raise HardwareError(f"{grant} names no device")
        number = int(match[1])
        node = f"{CAPABILITIES_FOLDER}/nvidia-cap{number}"
        if not self.sees(node).exists():
            self._make_node(node, number)
        return node

    def _make_node(self, node: str, number: int) -> None:
        """Make a device node; NVIDIA's own tools make it on first use, or not at all."""
        major = _MAJOR.search(self._read("/proc/devices"))
        if major is None:
            raise HardwareError("the NVIDIA driver has no capability devices")
        path = self.sees(node)
        try:
            path.parent.mkdir(exist_ok=True)
            os.mknod(path, stat.S_IFCHR | 0o444, os.makedev(int(major[1]), number))
            path.chmod(0o444)
        except OSError as error:
            raise HardwareError(f"cannot make device node {node}: {error.strerror}") from error

    def pcie_root(self, bus_id: str) -> str | None:
        """Return the root complex above a device, as `pci0000:00`, or None."""
        path = self.sees(f"/sys/bus/pci/devices/{bus_id}").resolve()
        return next((part for part in path.parts if _PCI_ROOT.fullmatch(part)), None)

    def numa_node(self, bus_id: str) -> int | None:
        try:
            node = int((self.sees(f"/sys/bus/pci/devices/{bus_id}") / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    @functools.cached_property
    def libraries(self) -> tuple[VendorFile, ...]:
        """Return the vendor's libraries under every name that programs open."""
        files: dict[str, VendorFile] = {}
        for folder in self._library_folders():
            for path in sorted(folder / entry.name for entry in self.sees(str(folder)).iterdir()):
                stem, separator, _ = path.name.partition(".so.")
                if separator and stem in LIBRARIES:
                    files.setdefault(path.name, VendorFile(self._real(path), path.name))
        return tuple(files.values())

    @functools.cached_property
    def programs(self) -> tuple[VendorFile, ...]:
        folders = [PurePosixPath(folder) for folder in (*PROGRAM_FOLDERS, *VENDOR_PROGRAM_FOLDERS)]
        paths = {name: self._first(folder / name for folder in folders) for name in PROGRAMS}
        return tuple(VendorFile(real, name) for name, real in paths.items() if real is not None)

    def library(self, name: str) -> Path | None:
        """Return the path of a library as this process sees it, or None where it is missing."""
        paths = (self.sees(str(file.real)) for file in self.libraries if file.name == name)
        return next(paths, None)

    def program(self, name: str) -> PurePosixPath | None:
        return next((file.real for file in self.programs if file.name == name), None)

    def _real(self, path: PurePosixPath) -> PurePosixPath:
        """Resolve links within `root`."""
        current = path
        for _ in range(8):
            seen = self.sees(str(current))
            if not seen.is_symlink():
                break
            current = PurePosixPath(os.path.normpath(current.parent / os.readlink(seen)))
        return current

    def _library_folders(self) -> Iterator[PurePosixPath]:
        standard = (*DEFAULT_LIBRARY_FOLDERS, *VENDOR_LIBRARY_FOLDERS)
        folders = dict.fromkeys([*map(PurePosixPath, standard), *self._cached_folders()])
        seen = set()
        for folder in folders:
            real = self.sees(str(folder)).resolve()
            if real not in seen and real.is_dir():
                seen.add(real)
                yield folder

    def _cached_folders(self) -> Iterable[PurePosixPath]:
        """Yield the directories of the vendor's libraries in the linker's cache."""
        command = ["ldconfig", "-p", "-C", str(self.sees("/etc/ld.so.cache"))]
        try:
            listed = subprocess.run(
                command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return
        for path in map(PurePosixPath, _LISTED.findall(listed)):
            if path.name.startswith(("libcuda.so", "libnvidia-ml.so")):
                yield path.parent

    def _first(self, paths: Iterable[PurePosixPath]) -> PurePosixPath | None:
        reals = map(self._real, paths)
        return next((path for path in reals if self.sees(str(path)).is_file()), None)

    def _read(self, path: str) -> str:
        try:
            return self.sees(path).read_text("ascii")
        except OSError as error:
            raise HardwareError(f"cannot read {path}: {error.strerror}") from error

    def sees(self, path: str) -> Path:
        """Return the path of a host's file as this process sees it."""
        return self._root / path.lstrip("/")
