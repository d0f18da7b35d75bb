"""Sharing set up on a GPU: the length of turns, or a Multi-Process Service (MPS) for the programs.

A setting is on disk before it is made, so that a restarted driver can undo it. One service runs for
each device that requests it, with files of its own: containers that have the device get its pipe
and its shared memory, others do not.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dray.driverkit.cdi import Edits, Mount
from dray.driverkit.checkpoint import Checkpoint
from dray.drivers.nvidia import config
from dray.drivers.nvidia.config import Mps, Sharing, TimeSlicing
from dray.drivers.nvidia.hardware import Hardware, HardwareError
from dray.drivers.nvidia.host import Host

log = logging.getLogger(__name__)

LEDGER_VERSION: Final = 1
LEDGER_FILE: Final = "sharing.json"
COMMAND_SECONDS: Final = 30.0
SMI, CONTROL = "nvidia-smi", "nvidia-cuda-mps-control"
LOGGED_LINES: Final = 3
PIPE_TARGET: Final = "/tmp/nvidia-mps"
READ_WRITE: Final = ("rw", "nosuid", "nodev", "bind")
SHARED_MEMORY_SIZE: Final = "size=1g"
_START = 'mount --bind "$1" /dev/shm && exec "$2" -d -multiuser-server'
"""The service has a /dev/shm of its own, which its clients get instead of theirs. One server
serves all clients: containers run as a user of the host without rights, the service as root."""
PIPE_MODE: Final = 0o1777
"""Clients put sockets of their own there, and cannot remove those of the service."""


class Commands(Protocol):
    """Runs the vendor's programs; raises HardwareError for what they refuse."""

    def run(self, argv: Sequence[str], env: Mapping[str, str] = {}, stdin: str = "") -> None: ...


class SystemCommands:
    def run(self, argv: Sequence[str], env: Mapping[str, str] = {}, stdin: str = "") -> None:
        # A file, not a pipe: a service that goes on in the background keeps what it was given.
        with tempfile.TemporaryFile() as output:
            try:
                ran = subprocess.run(
                    argv,
                    env={**os.environ, **env},
                    input=stdin.encode(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=COMMAND_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise HardwareError(f"{argv[0]} cannot be run: {error}") from error
            output.seek(0)
            text = output.read().decode("utf-8", "replace").strip()
        if ran.returncode:
            raise HardwareError(f"{' '.join(argv[:3])} failed with {ran.returncode}: {text}")


@dataclass(frozen=True)
class SharingRequest:
    """The sharing that one device of a claim requests."""

    key: str
    gpu: str
    uuid: str
    """The UUID of the device: the GPU's, or a partition's."""
    sharing: Sharing
    memory_mebibytes: int | None = None
    is_shared: bool = False

    @property
    def is_whole(self) -> bool:
        return self.uuid == self.gpu

    @property
    def strategy(self) -> str:
        return config.MPS if isinstance(self.sharing, Mps) else config.TIME_SLICING

    @property
    def interval(self) -> str:
        """The length of turns; the default where it cannot be chosen."""
        if isinstance(self.sharing, TimeSlicing) and self.is_whole:
            return self.sharing.interval
        return config.INTERVALS[0]


class SharingSetup(msgspec.Struct, frozen=True):
    """The sharing that is set up for a device, and the claims that use it."""

    gpu: str
    strategy: str
    interval: str
    holders: tuple[str, ...]
    was_exclusive: bool | None = None
    """The GPU's mode before a service had it for itself; None where that was not changed."""


class SharingRecord(msgspec.Struct, frozen=True):
    boot: str = ""
    """The boot id of the host: no setting survives a reboot."""
    arrangements: dict[str, SharingSetup] = {}


class SharingState:
    """Sets up and removes sharing. Calls block; they are made under the lock of GpuState."""

    def __init__(
        self, hardware: Hardware, host: Host, folder: Path, commands: Commands | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._hardware = hardware
        self._host = host
        self._folder = folder / "mps"
        self._commands = commands or SystemCommands()
        self._checkpoint = Checkpoint(folder / LEDGER_FILE, SharingRecord, version=LEDGER_VERSION)
        self._setups = self._read()

    def reload(self) -> None:
        """Read the state again if another process of the driver has written it."""
        if self._checkpoint.is_stale:
            self._setups = self._read()

    def arrange(self, request: SharingRequest) -> Edits:
        """Set up the sharing that a device requests, and return the edits for its containers."""
        setup = self._setups.get(request.uuid)
        requested = (request.strategy, request.interval)
        if setup is not None and (setup.strategy, setup.interval) != requested:
            raise HardwareError(
                f"{request.uuid} is shared by {setup.strategy} ({setup.interval} turns) already, "
                f"and cannot be by {request.strategy} ({request.interval} turns)"
            )
        is_usual = requested == (config.TIME_SLICING, config.INTERVALS[0])
        if is_usual and not request.is_shared:
            return Edits()
        self._join(request, setup)
        if isinstance(request.sharing, Mps):
            if setup is None:
                self._start_service(request, request.sharing)
            return self._client(request, request.sharing)
        if setup is None and not is_usual:
            self._set_turns(request.gpu, request.interval)
        return Edits()

    def _join(self, request: SharingRequest, setup: SharingSetup | None) -> None:
        if setup is None:
            takes_gpu = request.strategy == config.MPS and request.is_whole
            mode = self._hardware.is_exclusive(request.gpu) if takes_gpu else None
            setup = SharingSetup(request.gpu, request.strategy, request.interval, (), mode)
        holders = tuple(dict.fromkeys((*setup.holders, request.key)))
        self._note(request.uuid, msgspec.structs.replace(setup, holders=holders))

    def release(self, key: str) -> None:
        for uuid, setup in list(self._setups.items()):
            left = tuple(holder for holder in setup.holders if holder != key)
            if left == setup.holders:
                continue
            if left:
                self._note(uuid, msgspec.structs.replace(setup, holders=left))
            else:
                self._end(uuid, setup)
                del self._setups[uuid]
                self._write()

    def _end(self, uuid: str, setup: SharingSetup) -> None:
        if setup.strategy == config.MPS:
            self._stop_service(uuid, setup)
        elif setup.interval != config.INTERVALS[0]:
            self._set_turns(setup.gpu, config.INTERVALS[0])

    def _set_turns(self, gpu: str, interval: str) -> None:
        number = str(config.INTERVALS.index(interval))
        self._run([self._program(SMI), "compute-policy", "-i", gpu, "--set-timeslice", number])

    def _start_service(self, request: SharingRequest, limits: Mps) -> None:
        pipe, log_folder, memory = self._folders(request.uuid)
        for folder in (pipe, log_folder, memory):
            folder.mkdir(parents=True, exist_ok=True)
        pipe.chmod(PIPE_MODE)
        if request.is_whole:
            self._hardware.set_exclusive(request.gpu, True)
        self._run(["mount", "-t", "tmpfs", "-o", SHARED_MEMORY_SIZE, "shm", str(memory)])
        start = ["unshare", "--mount", "sh", "-c", _START, "sh", str(memory)]
        env = {**self._service_env(request.uuid), "CUDA_VISIBLE_DEVICES": request.uuid}
        try:
            self._run([*start, self._program(CONTROL)], env)
        except HardwareError as error:
            raise HardwareError(f"{error} {_last_words(log_folder)}") from error
        if limits.thread_percentage is not None:
            percentage = limits.thread_percentage
            self._tell(request.uuid, f"set_default_active_thread_percentage {percentage}")

    def _stop_service(self, uuid: str, setup: SharingSetup) -> None:
        memory = self._folders(uuid)[2]
        with _ended_already(uuid):
            self._tell(uuid, "quit")
        with _ended_already(uuid):
            self._run(["umount", str(memory)])
        if setup.was_exclusive is not None:
            self._hardware.set_exclusive(setup.gpu, setup.was_exclusive)
        shutil.rmtree(memory.parent, ignore_errors=True)

    def _client(self, request: SharingRequest, limits: Mps) -> Edits:
        pipe, _, memory = self._folders(request.uuid)
        env = {"CUDA_MPS_PIPE_DIRECTORY": PIPE_TARGET}
        if request.memory_mebibytes is not None:
            env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={request.memory_mebibytes}M"
        if limits.thread_percentage is not None:
            env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(limits.thread_percentage)
        mounts = (
            Mount(str(pipe), PIPE_TARGET, READ_WRITE),
            Mount(str(memory), "/dev/shm", READ_WRITE),
        )
        return Edits(env=env, mounts=mounts)

    def _tell(self, uuid: str, command: str) -> None:
        self._run([self._program(CONTROL)], self._service_env(uuid), command + "\n")

    def _run(self, argv: Sequence[str], env: Mapping[str, str] = {}, stdin: str = "") -> None:
        self._commands.run([*self._host.prefix, *argv], env, stdin)

    def _service_env(self, uuid: str) -> dict[str, str]:
        pipe, log_folder, _ = self._folders(uuid)
        return {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log_folder)}

    def _folders(self, uuid: str) -> tuple[Path, Path, Path]:
        # Sockets are in there, whose paths must be short.
        folder = self._folder / hashlib.blake2s(uuid.encode(), digest_size=4).hexdigest()
        return folder / "pipe", folder / "log", folder / "shm"

    def _program(self, name: str) -> str:
        path = self._host.program(name)
        if path is None:
            raise HardwareError(f"{name} is not installed on this machine")
        return str(path)

    def _note(self, uuid: str, arrangement: SharingSetup) -> None:
        self._setups[uuid] = arrangement
        self._write()

    def _read(self) -> dict[str, SharingSetup]:
        record = self._checkpoint.read() or SharingRecord()
        return dict(record.arrangements) if record.boot == self._host.boot else {}

    def _write(self) -> None:
        self._checkpoint.write(SharingRecord(self._host.boot, self._setups))


def _last_words(folder: Path) -> str:
    """Return the last lines of a service's logs."""
    texts = (path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.log")))
    return " ".join([line for text in texts for line in text.splitlines()][-LOGGED_LINES:])


@contextlib.contextmanager
def _ended_already(uuid: str) -> Iterator[None]:
    """Ignore the error of stopping a service that has ended by itself, as with a reboot."""
    try:
        yield
    except HardwareError as error:
        log.info("the service of %s has ended already: %s", uuid, error)
