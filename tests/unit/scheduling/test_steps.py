"""Alternatives: every run is for the next way in which claims fit, also after an interruption."""

from __future__ import annotations

from collections.abc import Iterable

from dray.allocator.model.rejections import SearchTimeout
from dray.allocator.placement import Allocator, Fit, NoFit
from dray.scheduling.steps import Alternatives, DeviceSearch, SearchOutcome
from tests import builders

CLAIM = builders.claim(builders.request())


def devices(outcome: SearchOutcome) -> list[str]:
    assert isinstance(outcome, Fit)
    return [result.device for result in outcome.allocations[0].devices.results]


def alternatives(stops: Iterable[bool] = ()) -> Alternatives:
    """Return the search for one of three different GPUs, ended where `stops` has True."""
    sizes = [builders.gpu(f"gpu-{number}", memory=f"{number}Gi") for number in range(1, 4)]
    answers = iter(stops)
    allocator = Allocator(
        builders.cluster_inventory(builders.resource_slice(*sizes)),
        new_share_id=lambda: "",
        should_stop=lambda: next(answers, False),
    )
    return Alternatives(DeviceSearch(allocator, [CLAIM], "n1"))


def test_every_run_finds_the_next_devices() -> None:
    search = alternatives()
    assert [devices(search.run()) for _ in range(3)] == [["gpu-1"], ["gpu-2"], ["gpu-3"]]
    assert isinstance(search.run(), NoFit)


def test_a_search_that_was_interrupted_goes_on_where_it_was() -> None:
    search = alternatives([True, False, True])
    assert isinstance(search.run(), SearchTimeout)
    assert devices(search.run()) == ["gpu-1"]
    assert isinstance(search.run(), SearchTimeout)
    assert [devices(search.run()) for _ in range(2)] == [["gpu-2"], ["gpu-3"]]
