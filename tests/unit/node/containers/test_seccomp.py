"""The seccomp filter: each number by an interpreter of BPF, and real processes under it."""

from __future__ import annotations

import errno
import re
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dray.node.containers import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, MISSING = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
FORBIDDEN_X86_64 = {
    "unshare": 272,
    "setns": 308,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "open_by_handle_at": 304,
    "keyctl": 250,
    "add_key": 248,
    "request_key": 249,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "settimeofday": 164,
    "clock_settime": 227,
    "acct": 163,
    "quotactl": 179,
    "syslog": 103,
    "iopl": 172,
    "ioperm": 173,
    "sethostname": 170,
    "setdomainname": 171,
    "fanotify_init": 300,
    "kcmp": 312,
    "pidfd_getfd": 438,
    "move_pages": 279,
    "migrate_pages": 256,
    "open_tree_attr": 467,
}
FORBIDDEN_AARCH64 = {
    "unshare": 97,
    "setns": 268,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "open_by_handle_at": 265,
    "keyctl": 219,
    "add_key": 217,
    "request_key": 218,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "io_uring_setup": 425,
    "kexec_load": 104,
    "init_module": 105,
    "finit_module": 273,
    "reboot": 142,
    "swapon": 224,
    "settimeofday": 170,
    "clock_settime": 112,
    "syslog": 116,
}
NEEDED_X86_64 = (0, 1, 2, 9, 12, 39, 42, 57, 59, 60, 62, 101, 161, 202, 231, 257, 310, 317, 436)
NEEDED_AARCH64 = (56, 57, 63, 64, 93, 94, 117, 129, 172, 203, 214, 221, 222, 260, 277, 436)


def outcome(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Interpret the filter for one call, as the kernel does."""
    program = list(struct.iter_unpack("=HBBI", seccomp.default_filter(machine)))
    chosen = ARCHITECTURES[machine] if architecture is None else architecture
    six = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number, chosen, 0, *six)
    at = value = 0
    while True:
        operation, if_true, if_false, constant = program[at]
        at += 1
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x06:
            return int(constant)
        else:
            holds = {
                0x15: value == constant,
                0x35: value >= constant,
                0x45: bool(value & constant),
            }[operation]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_a_program_that_the_kernel_accepts(machine: str) -> None:
    program = list(struct.iter_unpack("=HBBI", seccomp.default_filter(machine)))
    assert len(program) <= 4096
    for at, (operation, if_true, if_false, _) in enumerate(program):
        assert operation in (0x20, 0x15, 0x35, 0x45, 0x06)
        assert at + 1 + max(if_true, if_false) < len(program) or operation == 0x06
    assert program[-1][0] == 0x06


def test_every_number_of_x86_64() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    by_number = {number: outcome("x86_64", number) for number in range(1024)}
    for name, number in FORBIDDEN_X86_64.items():
        assert by_number[number] == REFUSE, name
    for number in NEEDED_X86_64:
        assert by_number[number] == ALLOW, number
    assert by_number[435] == MISSING
    assert all(by_number[number] == MISSING for number in range(335, 424))
    assert all(by_number[number] == MISSING for number in range(468, 1024))
    refused = {number for number, found in by_number.items() if found == REFUSE}
    assert len(refused) == 55
    if header.exists():
        pairs = re.findall(r"__NR_(\w+) (\d+)", header.read_text("ascii"))
        named = {int(number): name for name, number in pairs}
        for name, number in FORBIDDEN_X86_64.items():
            assert named.get(number, name) == name


def test_every_number_of_aarch64() -> None:
    by_number = {number: outcome("aarch64", number) for number in range(1024)}
    for name, number in FORBIDDEN_AARCH64.items():
        assert by_number[number] == REFUSE, name
    for number in NEEDED_AARCH64:
        assert by_number[number] == ALLOW, number
    assert by_number[435] == MISSING
    assert all(by_number[number] == MISSING for number in range(244, 260))
    assert all(by_number[number] == MISSING for number in range(295, 424))
    assert all(by_number[number] == MISSING for number in range(468, 1024))


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_calls_of_other_architectures(machine: str) -> None:
    for number in range(1024):
        assert outcome(machine, number, architecture=I386) == KILL
        assert outcome(machine, number, architecture=ARM) == KILL
    assert outcome("x86_64", 0, architecture=ARCHITECTURES["aarch64"]) == KILL


def test_calls_of_x32() -> None:
    for number in range(1024):
        assert outcome("x86_64", 0x40000000 | number) == MISSING
    assert outcome("x86_64", 0xFFFFFFFF) == MISSING


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 56), ("aarch64", 220)])
def test_clone(machine: str, number: int) -> None:
    thread = 0x3D0F00
    assert outcome(machine, number, thread) == ALLOW
    assert outcome(machine, number, 17) == ALLOW
    namespaces = (0x20000, *(1 << bit for bit in range(25, 31)))
    for flag in namespaces:
        assert outcome(machine, number, thread | flag) == REFUSE
        assert outcome(machine, number, 0xFFFFFFFF00000000 | flag) == REFUSE


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 16), ("aarch64", 29)])
def test_ioctl(machine: str, number: int) -> None:
    assert outcome(machine, number, 0, 0x5401) == ALLOW
    for request in (0x5412, 0x541C):
        assert outcome(machine, number, 0, request) == REFUSE
        # The kernel takes the lower half only.
        assert outcome(machine, number, 0, 0x100000000 | request) == REFUSE


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 41), ("aarch64", 198)])
def test_socket(machine: str, number: int) -> None:
    for family in range(64):
        expected = REFUSE if family in (38, 40) else ALLOW
        assert outcome(machine, number, family) == expected
        assert outcome(machine, number, 0x100000000 | family) == expected


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 135), ("aarch64", 92)])
def test_personality(machine: str, number: int) -> None:
    for allowed in (0, 8, 0x20000, 0x20008, 0xFFFFFFFF):
        assert outcome(machine, number, allowed) == ALLOW
    for refused in (0x40000, 0x400000, 1, 0x20001):
        assert outcome(machine, number, refused) == REFUSE


def test_an_unknown_machine() -> None:
    with pytest.raises(LookupError, match="riscv64"):
        seccomp.default_filter("riscv64")


UNDER_THE_FILTER = textwrap.dedent("""
    import ctypes, errno, os, socket, subprocess, sys, threading
    import importlib.util
    spec = importlib.util.spec_from_file_location("seccomp", sys.argv[1])
    seccomp = importlib.util.module_from_spec(spec)
    sys.modules["seccomp"] = seccomp
    spec.loader.exec_module(seccomp)
    code = seccomp.default_filter(os.uname().machine)
    libc = ctypes.CDLL(None, use_errno=True)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(code) // 8, code)), 0, 0) == 0

    def error(work):
        try:
            work()
        except OSError as found:
            return errno.errorcode[found.errno]
        return "none"

    def call(name, *arguments):
        if getattr(libc, name)(*arguments) == -1:
            raise OSError(ctypes.get_errno(), name)

    print("threads", end=" ")
    thread = threading.Thread(target=lambda: print("run"))
    thread.start()
    thread.join()
    print("program", subprocess.run(["/bin/echo"], capture_output=True).returncode)
    print("fork", os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1])
    print("unshare", error(lambda: call("unshare", 0x10000000)))
    print("mount", error(lambda: call("mount", b"none", b"/", b"tmpfs", 0, None)))
    print("vsock", error(lambda: socket.socket(40, socket.SOCK_STREAM)))
    print("alg", error(lambda: socket.socket(38, socket.SOCK_SEQPACKET)))
    print("unix", error(lambda: socket.socket(socket.AF_UNIX).close()))
    print("personality", error(lambda: call("personality", 0x40000)))
    print("unknown", error(lambda: call("syscall", 1000)))
    print("sethostname", error(lambda: call("sethostname", b"x", 1)))
    """)


def test_a_real_process() -> None:
    argv = [sys.executable, "-I", "-c", UNDER_THE_FILTER, seccomp.__file__]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert dict(line.split() for line in ran.stdout.splitlines()) == {
        "threads": "run",
        "program": "0",
        "fork": "0",
        "unshare": "EPERM",
        "mount": "EPERM",
        "vsock": "EPERM",
        "alg": "EPERM",
        "unix": "none",
        "personality": "EPERM",
        "unknown": "ENOSYS",
        "sethostname": "EPERM",
    }
