"""Notes of admission about a request, besides its result."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestNotes:
    """Warnings for the client, and annotations for the audit log: both also of refused requests.

    A request that is admitted again, after another writer's commit, says the same again.
    """

    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
