"""Times as they are written on the command line, and as they are shown."""

from __future__ import annotations

import datetime
from typing import Final

from dray.cli.command_errors import WrongUsage
from dray.cli.output import durations

__all__ = [
    "local",
    "moment",
    "since",
    "written",
]

SHOWN: Final = "%Y-%m-%d %H:%M:%S"


def moment(option: str, text: str) -> datetime.datetime | None:
    """Return the time of an option, or None without one. Without a date it is today, local time."""
    if not text:
        return None
    now = datetime.datetime.now().astimezone()
    try:
        dated = text if "T" in text or "-" in text else f"{now.date()}T{text}"
        found = datetime.datetime.fromisoformat(dated)
    except ValueError as error:
        raise WrongUsage(
            f"{option} {text}: write 14:02, 14:02:30 or 2026-11-15T14:02:00Z"
        ) from error
    zoned = found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
    return zoned.astimezone(datetime.UTC)


def since(option: str, text: str) -> datetime.datetime | None:
    """Return a time, which may be given as how long ago it is."""
    try:
        ago = datetime.timedelta(seconds=durations.seconds(text))
        return datetime.datetime.now(datetime.UTC) - ago
    except ValueError:
        pass
    except OverflowError as error:
        raise WrongUsage(f"{option} {text}: that is before all history") from error
    try:
        return moment(option, text)
    except WrongUsage as error:
        raise WrongUsage(f"{option} {text}: write 2h, 14:02 or 2026-11-15T14:02:00Z") from error


def written(time: datetime.datetime) -> str:
    """Return a time as documents have it, to the millisecond."""
    return time.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(time: str) -> str:
    """Return a time of a document for people."""
    return datetime.datetime.fromisoformat(time).astimezone().strftime(SHOWN)
