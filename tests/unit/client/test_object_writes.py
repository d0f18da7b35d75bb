"""Writes that begin again where others change the object in between."""

from __future__ import annotations

import asyncio

import pytest

from dray.api import errors
from dray.api.ids import GroupResource
from dray.client import object_writes


class BusyObject:
    """Somebody else changes it before each of the first writes."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts

    async def edit(self) -> str:
        if self.conflicts:
            self.conflicts -= 1
            raise errors.conflict(GroupResource("", "nodes"), "n")
        return "written"


@pytest.mark.parametrize("conflicts", [0, 3, 9])
def test_an_edit_begins_again_after_a_conflict(conflicts: int) -> None:
    assert asyncio.run(object_writes.repeated(BusyObject(conflicts).edit)) == "written"


def test_an_edit_that_never_succeeds_fails_with_the_conflict() -> None:
    with pytest.raises(errors.Conflict):
        asyncio.run(object_writes.repeated(BusyObject(1000).edit))
