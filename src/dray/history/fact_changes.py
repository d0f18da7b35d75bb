"""The facts that are true, and how they change when an object does.

There are three ways to learn of a change: when it happens, afterwards from the events that the
server still has, and from a comparison of what was known last with what is. They differ in how well
the time is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dray.history.cluster_facts import NOTHING, Facts, FactSource, source_of
from dray.history.facts import (
    Fact,
    FactBegin,
    FactChange,
    FactDetails,
    FactEnd,
    FactRevision,
    HeldFact,
    WaitingFact,
)

__all__ = [
    "ChangeTime",
    "FactChanges",
]

SECOND: Final = 1000
"""Times of objects are cut to seconds."""


class ChangeTime(NamedTuple):
    """When facts changed: between two times, which are the same for what is seen at once."""

    after: int
    """What has ended did so after this, or at this time."""
    before: int
    """What has begun did so before this, or at this time."""
    end_is_about: bool = False

    @classmethod
    def at(cls, time: int) -> ChangeTime:
        return cls(time, time)

    def of_begin(self, fact: Fact, details: FactDetails) -> int:
        """Return when a fact began: as its object says, if that is possible.

        A pod waits since its creation, although that is noticed later.
        """
        earliest = 0 if isinstance(fact, WaitingFact) else self.after
        return min(max(details.since or self.before, earliest), self.before)


class FactChanges:
    """The facts by their source, and the changes since they were last taken."""

    def __init__(self, facts: Mapping[Fact, FactDetails]) -> None:
        self._facts: dict[FactSource, dict[Fact, FactDetails]] = {}
        self._taken: list[FactChange] = []
        for fact, details in facts.items():
            self._facts.setdefault(source_of(fact), {})[fact] = details

    def __len__(self) -> int:
        return len(self._taken)

    def __contains__(self, source: FactSource) -> bool:
        """Return whether a source has facts."""
        return source in self._facts

    def take(self) -> list[FactChange]:
        taken, self._taken = self._taken, []
        return taken

    def sources(self, kind: str) -> list[FactSource]:
        """Return the sources of a kind that have facts."""
        return [source for source in self._facts if source.kind == kind]

    def put(self, source: FactSource, facts: Facts, time: ChangeTime) -> bool:
        """Replace the facts of a source; return whether something changed."""
        old = self._facts.get(source, NOTHING)
        if not old and not facts:
            return False
        before = len(self._taken)
        for fact, details in old.items():
            new = facts.get(fact)
            if new is None:
                self._taken.append(FactEnd(fact, time.after, time.end_is_about))
            elif details.reason != new.reason:
                self._taken.append(FactRevision(fact, new.reason))
            elif time.before > time.after and _is_another(fact, new, time):
                self._taken.append(FactEnd(fact, time.after, time.end_is_about))
                self._taken.append(FactBegin(fact, new, time.of_begin(fact, new)))
        for fact, details in facts.items():
            if fact not in old:
                self._taken.append(FactBegin(fact, details, time.of_begin(fact, details)))
        if facts:
            self._facts[source] = dict(facts)
        else:
            self._facts.pop(source, None)
        return len(self._taken) > before

    def put_only(
        self, kind: str, found: Iterable[tuple[FactSource, Facts]], time: ChangeTime
    ) -> int:
        """Replace the facts of all sources of a kind; return how many of them changed."""
        rest = set(self.sources(kind))
        changed = 0
        for source, facts in found:
            rest.discard(source)
            changed += self.put(source, facts, time)
        return changed + sum(self.put(source, NOTHING, time) for source in rest)


def _is_another(fact: Fact, new: FactDetails, time: ChangeTime) -> bool:
    """Return whether a claim holds a device again, and not still."""
    return isinstance(fact, HeldFact) and new.since >= time.after + SECOND
