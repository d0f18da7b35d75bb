"""A progress message on a terminal while a command waits."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

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
