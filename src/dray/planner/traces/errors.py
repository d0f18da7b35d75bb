"""The error of a trace that cannot be read."""

from __future__ import annotations


class TraceError(ValueError):
    """Says what is wrong, and in which line and column of which file; both count from 1."""

    def __init__(self, file: str, line: int, column: int, problem: str) -> None:
        super().__init__(f"{file}:{line}:{column}: {problem}")
        self.file, self.line, self.column, self.problem = file, line, column, problem
