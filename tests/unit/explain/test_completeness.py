"""Every check of the allocator has its filter and its words."""

from __future__ import annotations

import pytest

from dray.allocator.model import rejections
from dray.allocator.model.rejections import CheckName, DeviceRejection, SelectorNotMatched
from dray.explain.survey import filters
from dray.explain.survey.filters import FilterKind
from dray.explain.text import phrases


def subclasses(base: type) -> set[type]:
    direct: set[type] = set(base.__subclasses__())
    return direct.union(*(subclasses(one) for one in direct))


def test_every_rejection_of_a_device_belongs_to_a_check() -> None:
    concrete = {one for one in subclasses(DeviceRejection) if not one.__subclasses__()}
    # A selector's rejection knows by itself whether it is the class's or the request's.
    assert concrete - rejections._CHECK_OF.keys() == {SelectorNotMatched}


@pytest.mark.parametrize("check", CheckName)
def test_every_check_belongs_to_a_filter(check: CheckName) -> None:
    assert check in filters._KIND_OF


@pytest.mark.parametrize("kind", FilterKind)
def test_every_filter_has_words_for_passing_it(kind: FilterKind) -> None:
    assert kind in phrases._PASSING


@pytest.mark.parametrize(
    "kind", [kind for kind in FilterKind if kind not in (FilterKind.CLASS, FilterKind.SELECTOR)]
)
def test_every_filter_has_words_for_the_devices_left(kind: FilterKind) -> None:
    assert kind in phrases._FILTERS
