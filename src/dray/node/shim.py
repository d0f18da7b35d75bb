"""Outlives the agent: owns one container, its log and its exit code on disk.

Run as a program with a folder that holds `command.json`; writes `output.log` and, when the
container has ended, `exit.json`. It says "started" on its output once the container runs. SIGTERM
is passed on to the container's processes, SIGUSR1 kills them. Imports nothing but a little of
Python's own library, because it is started once for each container.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import IO, Any

COMMAND, PROCESS, OUTPUT, EXIT = "command.json", "process.json", "output.log", "exit.json"
STARTED = b"started\n"
INFO_DESCRIPTOR = "{info-fd}"
NOT_STARTED_CODE = 128
MAX_LINE_BYTES = 16 * 1024
LOOK_SECONDS = 0.002


def main(folder: str) -> int:
    process = {"pid": os.getpid(), "born": born(os.getpid()), "startedAt": time.time()}
    _write(os.path.join(folder, PROCESS), process)
    with open(os.path.join(folder, COMMAND), encoding="utf-8") as file:
        command = json.load(file)
    with open(os.path.join(folder, OUTPUT), "ab", buffering=0) as log:
        code, reason = _run(command, log)
    ended = {"exitCode": code, "reason": reason, "finishedAt": time.time()}
    _write(os.path.join(folder, EXIT), ended, durable=True)
    return 0


def born(process: int) -> float:
    """When a process was started, which tells it from a later one with its number; -2 if gone."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return -2.0
    return -2.0 if fields[0] == "Z" else float(fields[19])


def _run(command: Any, log: IO[bytes]) -> tuple[int, str]:
    read_end, write_end = os.pipe()
    argv = [str(write_end) if part == INFO_DESCRIPTOR else part for part in command["argv"]]
    try:
        process = subprocess.Popen(
            argv,
            env=command["env"],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(write_end,),
        )
    except OSError as error:
        return NOT_STARTED_CODE, f"{argv[0]}: {error.strerror}"
    os.close(write_end)
    inside = _first_process(read_end)
    signal.signal(signal.SIGTERM, lambda *_: _terminate(process.pid, inside))
    signal.signal(signal.SIGUSR1, lambda *_: _kill(inside or process.pid, signal.SIGKILL))
    while inside and not _children(inside) and process.poll() is None:
        # The sandbox is there before the container's own first process is.
        time.sleep(LOOK_SECONDS)
    with contextlib.suppress(BrokenPipeError):
        # Nobody listens any more where the agent died meanwhile; the container goes on.
        os.write(1, STARTED)
    _copy_output(process, log)
    code = process.wait()
    return (128 - code, "") if code < 0 else (code, "")


def _first_process(descriptor: int) -> int:
    """The process that bubblewrap names as first of its sandbox; 0 where nobody names one."""
    text = b""
    with os.fdopen(descriptor, "rb", buffering=0) as pipe:
        while b"}" not in text and (chunk := pipe.read(4096)):
            text += chunk
    try:
        return int(json.loads(text)["child-pid"])
    except (ValueError, KeyError):
        return 0


def _terminate(outer: int, inside: int) -> None:
    """Ask the container's own processes to end, not what keeps them in their sandbox."""
    if not inside:
        _kill(outer, signal.SIGTERM)
        return
    for child in _children(inside):
        _kill(child, signal.SIGTERM)


def _children(process: int) -> list[int]:
    try:
        with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return []


def _kill(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _copy_output(process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    """Each line with its time and stream, as the kubelet's runtimes write logs."""
    rest = {b"stdout": b"", b"stderr": b""}
    with selectors.DefaultSelector() as selector:
        for stream, pipe in ((b"stdout", process.stdout), (b"stderr", process.stderr)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                *lines, left = (rest[key.data] + chunk).split(b"\n")
                while len(left) > MAX_LINE_BYTES:
                    _write_line(log, key.data, b"P", left[:MAX_LINE_BYTES])
                    left = left[MAX_LINE_BYTES:]
                for line in lines:
                    _write_line(log, key.data, b"F", line)
                rest[key.data] = left
    for stream, left in rest.items():
        if left:
            _write_line(log, stream, b"P", left)


def _write_line(log: IO[bytes], stream: bytes, tag: bytes, line: bytes) -> None:
    nanoseconds = time.time_ns()
    seconds, fraction = divmod(nanoseconds, 10**9)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction:09}Z"
    log.write(b"%s %s %s %s\n" % (stamp.encode(), stream, tag, line))


def _write(path: str, content: dict[str, Any], *, durable: bool = False) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(path + ".new", path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
