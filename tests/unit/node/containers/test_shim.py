"""What a shim does besides running a program: input, terminals, logs that grow."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from dray.node.containers import container_attempts, logs, shim
from dray.node.containers.container_attempts import Command, ContainerAttempt, Starter
from dray.node.runtimes.interface import in_terminal
from tests.waiting import until

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def run(
    folder: Path, command: Command, test: Callable[[ContainerAttempt], Awaitable[None]]
) -> None:
    async def inside() -> None:
        async with asyncio.timeout(30), Starter() as starter:
            await test(await starter.start(folder, 0, command))

    asyncio.run(inside())


def shell(script: str, **fields: bool) -> Command:
    return Command(["/bin/sh", "-c", script], ENVIRONMENT, **fields)  # type: ignore[arg-type]


async def written(attempt: ContainerAttempt, text: bytes) -> None:
    await until(lambda: text in logs.read(attempt.log), repr(text))


def test_a_start_that_is_cancelled_leaves_a_container_that_can_be_found(tmp_path: Path) -> None:
    async def inside() -> None:
        async with asyncio.timeout(30), Starter() as starter:
            starting = asyncio.create_task(starter.start(tmp_path, 0, shell("exec sleep 60")))
            await asyncio.sleep(0)
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            assert starting.cancelled()
            found = container_attempts.last_attempt(tmp_path)
            assert found is not None
            assert (found.has_begun, found.exit()) == (True, None)
            found.kill()
            await found.wait()

    asyncio.run(inside())


def test_what_is_typed_reaches_the_container_until_the_first_leaves(tmp_path: Path) -> None:
    async def test(attempt: ContainerAttempt) -> None:
        with attempt.input.open("wb") as typed:
            typed.write(b"one\ntwo\n")
        assert (await attempt.wait()).code == 0
        assert logs.read(attempt.log) == b"one\ntwo\nend\n"

    run(tmp_path, shell("cat; echo end", stdin=True, stdin_once=True), test)


def test_several_may_type_one_after_the_other(tmp_path: Path) -> None:
    async def test(attempt: ContainerAttempt) -> None:
        for word in (b"one", b"two"):
            with attempt.input.open("wb") as typed:
                typed.write(word + b"\n")
            await written(attempt, word)
        assert attempt.exit() is None
        attempt.kill()
        await attempt.wait()

    run(tmp_path, shell("exec cat", stdin=True), test)


def test_a_container_that_does_not_read_does_not_stop_its_own_output(tmp_path: Path) -> None:
    async def test(attempt: ContainerAttempt) -> None:
        descriptor = os.open(attempt.input, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while os.write(descriptor, b"x" * 65536):
                continue
        (tmp_path / "go").touch()
        await written(attempt, b"still here")
        os.close(descriptor)
        attempt.kill()
        await attempt.wait()

    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo still here; sleep 60"
    run(tmp_path, shell(script, stdin=True), test)


def test_a_terminal_shows_a_prompt_at_once_and_can_be_resized(tmp_path: Path) -> None:
    async def test(attempt: ContainerAttempt) -> None:
        await written(attempt, b"prompt> ")
        attempt.resize(33, 77)
        with attempt.input.open("wb") as typed:
            typed.write(b"go\n")
        assert (await attempt.wait()).code == 0
        assert b"33 77" in logs.read(attempt.log)

    script = "printf 'prompt> '; read x; stty size"
    argv = in_terminal(("/bin/sh", "-c", script), True)
    run(tmp_path, Command(argv, ENVIRONMENT, stdin=True, tty=True), test)


def test_a_log_that_grows_too_large_is_put_aside_and_still_followed(tmp_path: Path) -> None:
    async def test(attempt: ContainerAttempt) -> None:
        seen = 0
        async for chunk in logs.follow(attempt.log, lambda: attempt.exit() is not None):
            seen += chunk.count(b"\n")
        assert seen == 130_000
        assert (attempt.folder / shim.ROTATED).stat().st_size <= shim.MAX_LOG_BYTES
        assert logs.read(attempt.log).endswith(b" 130000\n")

    line = "x" * 80
    script = f"seq -f '{line} %.0f' 1 130000"
    run(tmp_path, shell(script), test)


def test_one_process_starts_many_containers_and_leaves_no_zombie(tmp_path: Path) -> None:
    async def test() -> None:
        async with Starter() as starter:
            starting = [
                starter.start(tmp_path / str(number), 0, shell(f"exit {number}"))
                for number in range(20)
            ]
            attempts = await asyncio.gather(*starting)
            codes = [(await attempt.wait()).code for attempt in attempts]
        assert codes == list(range(20))
        for attempt in attempts:
            assert not os.path.exists(f"/proc/{attempt.pid}")

    asyncio.run(test())
