"""Cancellation that is not forgotten.

A task group whose parent is cancelled while one of its tasks fails raises the failure and says
nothing of the cancellation (Python 3.11 and 3.12). Whoever handles such a failure and goes on has
to ask.
"""

from __future__ import annotations

import asyncio


def raise_if_cancelled() -> None:
    """End the task if somebody has asked it to."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
