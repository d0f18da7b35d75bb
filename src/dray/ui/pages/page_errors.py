"""Errors of requests that cannot be answered."""

from __future__ import annotations

from typing import Any


class PageError(Exception):
    """The HTTP status, what is wrong, and what to do."""

    def __init__(self, status: int, message: str, advice: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.document = {"message": message, "advice": advice, **more}
