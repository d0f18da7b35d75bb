"""Patterns of messages that schedulers and node agents write about a pod.

Of some failures the API has only the message. The texts are those of Kubernetes, which dray's own
components use too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NOT_REGISTERED = "is not registered"
"""Follows the name of the driver in messages of the kubelet and of dray's node agent."""
_BINDING_FAILED = re.compile(
    r"device binding failed: claim=(?P<claim>[^,\s]+), "
    r'reason=(?P<reason>[^,]*), message="(?P<message>.*)"'
)
_ESCAPED = re.compile(r'\\(["\\])')
_BINDING_TIMEOUT = re.compile(r"device binding timeout: claim=(?P<claim>[^,\s]+)")


class FailedBinding(NamedTuple):
    """A claim whose devices could not be attached; `why` is empty after a timeout."""

    claim: str
    why: str = ""


def failed_binding(message: str) -> FailedBinding | None:
    """Return the failed binding that a scheduler's message reports, or None."""
    if failed := _BINDING_FAILED.search(message):
        message = _ESCAPED.sub(r"\1", failed["message"])
        return FailedBinding(failed["claim"], message or failed["reason"])
    if late := _BINDING_TIMEOUT.search(message):
        return FailedBinding(late["claim"])
    return None


def is_unregistered(driver: str, message: str) -> bool:
    """Return whether a message of a node agent reports the driver as not registered."""
    return NOT_REGISTERED in message and f"driver {driver} " in message
