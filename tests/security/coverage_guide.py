"""Which lines of chosen files have run, so that a fuzzer keeps the inputs that reach new ones.

From Python 3.12 the interpreter reports each line once and then no more (`sys.monitoring`), which
costs almost nothing. Python 3.11 has a trace function only: here it follows a function until all
of its lines have run, and a request to the API server takes 2.5 times as much CPU time.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dray

SOURCE = Path(dray.__file__).parent


class Lines:
    """The lines that have run so far, of files under some folders of dray."""

    def __init__(self, folders: Collection[str]) -> None:
        self._prefixes = tuple(f"{SOURCE / folder}" for folder in folders)
        self._left: dict[CodeType, set[int]] = {}
        self.seen = 0

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Follow what this thread runs until the block is left."""
        if sys.version_info >= (3, 12):
            with self._monitored():
                yield
        else:
            before = sys.gettrace()
            sys.settrace(self._call)
            try:
                yield
            finally:
                sys.settrace(before)

    @contextlib.contextmanager
    def _monitored(self) -> Iterator[None]:
        monitoring: Any = vars(sys)["monitoring"]
        tool, line = monitoring.COVERAGE_ID, monitoring.events.LINE

        def note(code: CodeType, _number: int) -> Any:
            if code.co_filename.startswith(self._prefixes):
                self.seen += 1
            return monitoring.DISABLE

        monitoring.use_tool_id(tool, "dray-fuzz")
        monitoring.register_callback(tool, line, note)
        monitoring.set_events(tool, line)
        try:
            yield
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            # Code that is made while the program runs would never be freed if it were kept here.
            if not code.co_filename.startswith(self._prefixes):
                return None
            left = {line for *_, line in code.co_lines() if line}
            # The line of `def` runs when the function is made, not when it is called.
            left.discard(code.co_firstlineno)
            self._left[code] = left
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        left = self._left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self.seen += 1
        return self._line if left else None
