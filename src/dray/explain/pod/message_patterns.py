"""What schedulers and node agents say about a pod, recognised by the words that they always use.

Their messages are all that the API keeps of some failures. The words are those of Kubernetes, which
dray's own components say too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NOT_REGISTERED = "is not registered"
"""In the words of the kubelet and of dray's node agent, behind the name of the driver."""
_BINDING_FAILED = re.compile(
    r"device binding failed: claim=(?P<claim>[^,\s]+), "
    r'reason=(?P<reason>[^,]*), message="(?P<message>.*)"'
)
_ESCAPED = re.compile(r'\\(["\\])')
_BINDING_TIMEOUT = re.compile(r"device binding timeout: claim=(?P<claim>[^,\s]+)")


class FailedBinding(NamedTuple):
    """What a claim's devices could not be attached for; nothing where that took too long."""

    claim: str
    why: str = ""


def failed_binding(message: str) -> FailedBinding | None:
    """The failure that a scheduler tells of, if it is one to attach devices."""
    if failed := _BINDING_FAILED.search(message):
        message = _ESCAPED.sub(r"\1", failed["message"])
        return FailedBinding(failed["claim"], message or failed["reason"])
    if late := _BINDING_TIMEOUT.search(message):
        return FailedBinding(late["claim"])
    return None


def is_unregistered(driver: str, message: str) -> bool:
    """Whether a node agent says that it does not know the driver."""
    return NOT_REGISTERED in message and f"driver {driver} " in message
