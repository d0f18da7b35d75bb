"""A process made to be killed: writes a history and says how many commits were acknowledged.

What commit N changes follows from its number alone, so that the test knows it too. Each line on
standard output is a number: the commit that is on disk.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from dray.api.ids import DeviceId
from dray.history.facts import Begin, Change, Details, End, Held, ObjectRef, Progress, Used
from dray.history.history_file import HistoryFile

START = 1_763_520_000_000
STEP = 1000
LIFE = 7
"""A claim is held for so many commits."""


def claims(number: int) -> list[tuple[Held, Used]]:
    """Return what begins with a commit."""
    chance = random.Random(number)
    found = []
    for index in range(chance.randrange(1, 40)):
        claim = ObjectRef("default", f"claim-{number}-{index}", f"uid-{number}-{index}")
        pod = ObjectRef("default", f"pod-{number}-{index}", f"pod-{number}-{index}")
        device = DeviceId("gpu.example.com", f"node-{index}", f"gpu-{number % LIFE}")
        found.append((Held(device, claim), Used(claim, pod)))
    return found


def time_of(number: int) -> int:
    return START + number * STEP


def changes(number: int) -> Iterator[Change]:
    if number > LIFE:
        for pair in claims(number - LIFE):
            yield from (End(fact, time_of(number)) for fact in pair)
    for pair in claims(number):
        yield from (Begin(fact, Details(node="n"), time_of(number)) for fact in pair)


def main(path: Path) -> None:
    with HistoryFile.open(path) as file:
        number = int(file.load().versions.get("commits", "0"))
        while True:
            number += 1
            progress = Progress(time_of(number), {"commits": str(number)}, number == 1)
            file.commit(list(changes(number)), progress)
            os.write(1, f"{number}\n".encode())
            if number % 5 == 0:
                file.sweep(time_of(number))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
