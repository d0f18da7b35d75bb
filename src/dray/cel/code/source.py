"""Writes the Python source of compiled expressions.

Only names made here appear in it: `k1` constants, `t1` temporaries, `v1` variables, `f1` functions.
Values of the user reach it through the table of constants, never as text. CPython refuses source
that nests deep; so blocks are kept shallow by moving what is inside into a function of its own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

# CPython refuses more than 100 levels of indentation and 20 nested blocks. Both limits leave room
# for the lines that one node adds before it checks `is_deep` again.
_MAX_INDENTATION = 40
_MAX_TRIES = 8

_LEVEL = " "


class _Frame(NamedTuple):
    """The place where writing continues when the inner function is finished."""

    lines: list[str]
    indentation: int
    tries: int
    failures: int


class SourceWriter:
    """Source under construction: finished functions, and the one being written.

    `failures` grows with every line that may raise an EvaluationError.
    """

    def __init__(self, helpers: dict[str, Any]) -> None:
        self.failures = 0
        self._globals: dict[str, Any] = dict(helpers)
        self._constant_names: dict[tuple[type, Any], str] = {}
        self._functions: list[list[str]] = []
        self._frames: list[_Frame] = []
        self._lines: list[str] = []
        self._indentation = 0
        self._tries = 0
        self._names = 0

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Any) -> str:
        """Return the name of a value in the table of constants."""
        # Only strings are shared: they repeat often, and other values may not be hashable.
        if isinstance(value, str):
            key = (str, value)
            if key not in self._constant_names:
                self._constant_names[key] = self._store(value)
            return self._constant_names[key]
        return self._store(value)

    def _store(self, value: Any) -> str:
        name = self.name("k")
        self._globals[name] = value
        return name

    def is_constant(self, name: str) -> bool:
        return name in self._globals

    def value(self, name: str) -> Any:
        return self._globals[name]

    def line(self, text: str, *, may_fail: bool = False) -> None:
        self._lines.append(_LEVEL * self._indentation + text)
        self.failures += may_fail

    def assign(self, expression: str, *, may_fail: bool = False) -> str:
        name = self.name("t")
        self.line(f"{name} = {expression}", may_fail=may_fail)
        return name

    @contextlib.contextmanager
    def block(self, heading: str, *, may_fail: bool = False) -> Iterator[None]:
        """Write a heading, and what is written inside one level deeper."""
        self.line(heading, may_fail=may_fail)
        self._indentation += 1
        yield
        self._indentation -= 1

    @property
    def is_deep(self) -> bool:
        """Whether another level belongs into a function of its own."""
        return self._indentation > _MAX_INDENTATION or self._tries > _MAX_TRIES

    @contextlib.contextmanager
    def attempt(self, handler: str) -> Iterator[None]:
        """Write what is inside, with a handler of errors if anything in it can fail."""
        outside, failures = self._lines, self.failures
        inside = self._lines = []
        self._indentation += 1
        self._tries += 1
        yield
        self._lines = outside
        self._indentation -= 1
        self._tries -= 1
        # A `try` that nothing can enter would only cost time; its lines move one level out.
        if self.failures == failures:
            self._lines += [line.removeprefix(_LEVEL) for line in inside]
            return
        self.line("try:")
        self._lines += inside
        with self.block("except EvaluationError as error:"):
            self.line(handler)

    def begin_function(self, parameters: Iterable[str]) -> str:
        self._frames.append(_Frame(self._lines, self._indentation, self._tries, self.failures))
        self._lines = []
        self._indentation = self._tries = 0
        name = self.name("f")
        self.line(f"def {name}({', '.join(parameters)}):")
        self._indentation = 1
        return name

    def end_function(self) -> None:
        self._functions.append(self._lines)
        self._lines, self._indentation, self._tries, _ = self._frames.pop()

    def may_fail_in_function(self) -> bool:
        """Return whether anything written in the function under construction may raise."""
        return self.failures > self._frames[-1].failures

    def inline_function(self) -> None:
        """End a function by writing its lines in place of a call."""
        lines = self._lines[1:]
        self._lines, self._indentation, self._tries, _ = self._frames.pop()
        self._lines += [_LEVEL * (self._indentation - 1) + line for line in lines]

    def text(self) -> str:
        return "\n".join(itertools.chain.from_iterable(self._functions))

    def build(self, name: str) -> Callable[..., Any]:
        """Compile the code and return the function of that name."""
        text = self.text()
        code = _compile_short(text) if len(text) <= _SHORT else _compile(text)
        exec(code, self._globals)
        built = self._globals[name]
        assert isinstance(built, types.FunctionType)
        return built


_SHORT = 1 << 12
_REMEMBERED_LIMIT = 1 << 9


def _compile(text: str) -> types.CodeType:
    return compile(text, "<cel>", "exec")


# The code has names for the constants of an expression. So it is the same for all expressions that
# differ in these alone, as those of many claims do.
_compile_short = functools.lru_cache(maxsize=_REMEMBERED_LIMIT)(_compile)
