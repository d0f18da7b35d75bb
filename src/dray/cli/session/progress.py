"""Progress on a terminal while a command works: a message, or a bar."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

DELAY_SECONDS = 0.7


@contextlib.contextmanager
def shown(doing: str) -> Iterator[None]:
    """Show a message until the block ends, if that takes longer than a moment.

    Shows nothing if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield
        return
    with contextlib.ExitStack() as stack:
        timer = threading.Timer(DELAY_SECONDS, _show, (stack, doing))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


@contextlib.contextmanager
def bar(doing: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that draws how much of a total is done, or None without a terminal.

    Without a terminal, calling it would only add to the time.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(transient=True, console=Console(stderr=True)) as drawn:
        task = drawn.add_task(doing, total=None)

        def show(done: int, total: int) -> None:
            if done % 64 == 0 or done == total:
                drawn.update(task, completed=done, total=total)

        yield show


def _show(stack: contextlib.ExitStack, doing: str) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner

    # What is printed meanwhile goes where it belongs, which need not be the terminal.
    stack.enter_context(
        Live(
            Spinner("dots", f"{doing} …"),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
    )
