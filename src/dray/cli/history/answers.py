"""Answers about the past: from a recorded file where there is one, else from old revisions."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dray.api import errors
from dray.cli.command_errors import CommandError, ObjectNotFound, WrongUsage
from dray.cli.history import past_revisions, recorded_file, times
from dray.cli.history.past_revisions import NEVER, Period
from dray.cli.session.connection import Target
from dray.client.kubeconfig import KubeconfigError
from dray.history.history_file import HistoryUnusable
from dray.history.periods import Gap, HeldPeriod, HistorySpan, MarkPeriod
from dray.history.queries import DeviceHistory

__all__ = [
    "HistoryAnswer",
    "HistoryQuestion",
    "Mark",
    "answer",
]

LAG_SECONDS: Final = 10.0
"""How long to wait for what has just happened."""
LOOK_SECONDS: Final = 0.2

Subject = Literal["device", "claim", "node", "user"]
Time = datetime.datetime | None


class HistoryQuestion(NamedTuple):
    """A question; its times are as written on the command line."""

    subject: Subject
    name: str
    """A claim is NAMESPACE/NAME."""
    at: str = ""
    since: str = ""
    file: Path | None = None


class Mark(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A time in which a device was tainted or unhealthy."""

    device: str
    kind: str
    key: str
    since: str
    until: str = ""


class HistoryAnswer(NamedTuple):
    """Periods in which devices were held, and the times that are not known."""

    items: Sequence[Period]
    reaches_back_to: str
    """A time, or "" if it is unknown."""
    recorded_until: str = ""
    """Of a recorded file, until when it knows everything."""
    gaps: Sequence[tuple[str, str]] = ()
    marks: Sequence[Mark] = ()
    revision: int = 0
    """Of old revisions, the oldest."""

    def document(self) -> dict[str, Any]:
        if self.recorded_until:
            return {
                "reachesBackTo": self.reaches_back_to,
                "recordedUntil": self.recorded_until,
                "gaps": [{"since": since, "until": until} for since, until in self.gaps],
                "items": list(self.items),
                "marks": list(self.marks),
            }
        return {
            "reachesBackTo": self.reaches_back_to,
            "revision": self.revision,
            "items": list(self.items),
        }


def answer(target: Target, question: HistoryQuestion) -> HistoryAnswer:
    """Return the answer to a question. Raises CommandError if there is none."""
    at = times.moment("--at", question.at)
    since = times.since("--since", question.since) if question.since else None
    now = datetime.datetime.now(datetime.UTC)
    for option, text, moment in (("--at", question.at, at), ("--since", question.since, since)):
        if moment is not None and moment > now:
            raise WrongUsage(f"{option} {text}: that time has not come yet")
    if at is not None and since is not None:
        raise WrongUsage("--at is one time and --since is many: give one of them")
    path = question.file or recorded_file.find(target)
    if path is not None:
        try:
            with DeviceHistory(path) as history:
                found = _recorded(target, history, question, at, since)
        except HistoryUnusable as error:
            raise CommandError(str(error), error.advice) from error
        if found is not None:
            return found
    return _from_revisions(target, question, at, since)


def _recorded(
    target: Target, history: DeviceHistory, question: HistoryQuestion, at: Time, since: Time
) -> HistoryAnswer | None:
    """Return what a file knows; None if it does not reach back so far."""
    span = _span_up_to(history, at) if at is not None else history.span()
    if span.first is None or span.last is None:
        return None
    if at is not None and at < span.first:
        if question.file is None:
            return None
        raise ObjectNotFound(
            f"{question.at} is before the record, which starts at "
            f"{times.local(times.written(span.first))}",
            "What happened before is not known.",
        )
    named: dict[str, Any] = {question.subject: question.name}
    held = history.periods(**named, since=at or since, until=at)
    if not held and not history.knows(**named):
        _require_known(target, question)
    begin, end = at or since or span.first, at or span.last
    is_device = question.subject == "device"
    marks = history.marks(question.name, begin, end) if is_device else []
    if at is not None:
        held = [item for item in held if item.until is None or item.until > at]
        marks = [item for item in marks if item.until is None or item.until > at]
    return HistoryAnswer(
        items=[_period(item) for item in held],
        reaches_back_to=times.written(span.first),
        recorded_until=times.written(span.last),
        gaps=[_times(gap) for gap in _unknown(span, at) if gap.until >= begin and gap.since <= end],
        marks=[_mark(item) for item in marks],
    )


def _span_up_to(history: DeviceHistory, wanted: datetime.datetime) -> HistorySpan:
    """Return the span of a file; wait for a recorder that is about to write of that time."""
    deadline = time.monotonic() + LAG_SECONDS
    while True:
        span = history.span()
        lag = datetime.timedelta(seconds=LAG_SECONDS)
        is_near = span.last is not None and span.last < wanted <= span.last + lag
        if not is_near or time.monotonic() > deadline:
            return span
        time.sleep(LOOK_SECONDS)


def _unknown(span: HistorySpan, at: Time) -> list[Gap]:
    """Return the gaps, and the time since the recorder ended."""
    end = at or datetime.datetime.now(datetime.UTC)
    assert span.last is not None, "something is recorded"
    return [*span.gaps, *([Gap(span.last, end)] if span.has_ended(end) else [])]


def _require_known(target: Target, question: HistoryQuestion) -> None:
    """Raise ObjectNotFound for a name that nothing has; what never held is known nevertheless."""
    if question.file is None and question.subject == "device":
        with contextlib.suppress(errors.StatusError, KubeconfigError, CommandError):
            if past_revisions.is_published(target, question.name):
                return
    raise ObjectNotFound(
        f"no {question.subject} {question.name} is in the record",
        _ADVICE[question.subject],
    )


_ADVICE: Final = {
    "device": "A device is NODE/DEVICE or DRIVER/POOL/DEVICE; see: dray get devices",
    "claim": "A claim is NAME (of the namespace, see -n) or NAMESPACE/NAME.",
    "node": "See: dray get nodes",
    "user": "A user is as in the column USER of: dray history node NODE",
}


def _from_revisions(
    target: Target, question: HistoryQuestion, at: Time, since: Time
) -> HistoryAnswer:
    match question.subject:
        case "device":
            past, held = past_revisions.of_device(target, question.name)
        case "claim":
            past, held = past_revisions.of_claim(target, question.name)
        case _:
            raise CommandError(
                f"the history of a {question.subject} needs a record, and there is none",
                "`dray up` records by itself; for other clusters: dray record --file FILE",
            )
    if at is not None:
        instant = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        past_revisions.require_visible(past, instant, question.at)
        held = [item for item in held if item.since <= instant < (item.until or NEVER)]
    if since is not None:
        begin = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        held = [item for item in held if (item.until or NEVER) >= begin]
    return HistoryAnswer(held, past.reaches_back_to, revision=past.oldest)


def _period(held: HeldPeriod) -> Period:
    namespace, _, claim = held.claim.partition("/")
    return Period(
        device=str(held.device),
        namespace=namespace,
        claim=claim,
        since=times.written(held.since),
        until=times.written(held.until) if held.until is not None else "",
        until_is_about=held.until_is_about,
        used_by=tuple(map(_user, held.pods)),
        node=held.node,
        user=held.user,
    )


def _user(pod: str) -> str:
    """Return a pod NAMESPACE/NAME as pods/NAME, and another user as RESOURCE/NAME."""
    name = pod.partition("/")[2]
    return name if "/" in name else f"pods/{name}"


def _mark(found: MarkPeriod) -> Mark:
    until = times.written(found.until) if found.until is not None else ""
    return Mark(str(found.device), found.kind, found.key, times.written(found.since), until)


def _times(gap: Gap) -> tuple[str, str]:
    return times.written(gap.since), times.written(gap.until)
