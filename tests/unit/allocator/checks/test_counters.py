"""Shared counters, packed into integers."""

from __future__ import annotations

import pytest

from dray.allocator.checks.counters import PoolCounters, layout_of
from dray.allocator.model import rejections
from dray.api.types.dra import Counter, CounterSet
from tests import builders
from tests.unit.allocator import allocating

HALF = 'device.attributes["gpu.example.com"].size == "half"'
WHOLE = 'device.attributes["gpu.example.com"].size == "whole"'


def ledger(total: dict[str, str], **needs: dict[str, str]) -> PoolCounters:
    counters = {name: Counter(value) for name, value in total.items()}
    devices = [builders.device(name, consumes={"set": need}) for name, need in needs.items()]
    return PoolCounters(layout_of({"set": CounterSet("set", counters)}, devices))


def test_a_device_is_allowed_while_every_counter_lasts() -> None:
    book = ledger(
        {"cores": "4", "memory": "8Gi"},
        small={"cores": "1", "memory": "2Gi"},
        wide={"cores": "4"},
    )
    assert book.allows(book.left, book.needs["wide"])
    book.charge("small")
    assert not book.allows(book.left, book.needs["wide"])
    assert book.allows(book.left, book.needs["small"])
    book.refund("small")
    assert book.allows(book.left, book.needs["wide"])


def test_missing_steps_are_told_also_of_counters_that_are_overdrawn() -> None:
    book = ledger(
        {"cores": "4", "memory": "8"},
        small={"cores": "1", "memory": "2"},
        wide={"cores": "4"},
        all={"memory": "8"},
    )

    def missing(need: int) -> dict[str, int]:
        return {counter.key[1]: steps * counter.unit for counter, steps in book.missing(need)}

    unit = 10**9
    book.charge("small")
    assert missing(book.needs["small"]) == {}
    assert missing(book.needs["wide"]) == {"cores": unit}
    book.charge("all")
    assert missing(book.needs["wide"]) == {"cores": unit, "memory": 2 * unit}
    assert missing(book.needs["small"]) == {"memory": 4 * unit}


@pytest.mark.parametrize(
    ("total", "need", "fitting"),
    [("1", "250m", 4), ("3", "1500m", 2), ("10Gi", "3Gi", 3), ("1e3", "7", 142)],
)
def test_amounts_are_exact(total: str, need: str, fitting: int) -> None:
    book = ledger({"units": total}, part={"units": need})
    taken = 0
    while book.allows(book.left, book.needs["part"]):
        book.charge("part")
        taken += 1
    assert taken == fitting


def test_an_overdrawn_counter_closes_the_whole_pool() -> None:
    """As upstream: every partition is refused, also those that draw from other counters."""
    book = ledger({"a": "1", "b": "1"}, x={"a": "1"}, y={"a": "1"}, z={"b": "1"})
    book.charge("x")
    book.charge("y")
    assert not book.allows(book.left, book.needs["z"])
    book.refund("x")
    assert book.allows(book.left, book.needs["z"])


def test_the_refusal_says_what_is_short_and_who_has_it() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices())
    builders.hold(cluster, "other", "gpu-0-half-0")
    reason = allocating.rejection(cluster, builders.claim(builders.request("gpu", WHOLE)))
    assert isinstance(reason, rejections.NoCombination)
    short = reason.last
    assert isinstance(short, rejections.InsufficientCounter)
    assert (short.counter_set, short.counter) == ("gpu-0", "memory")
    assert (short.needed, short.available) == ("40Gi", "20Gi")
    assert [holder.name for holder in short.holders] == ["other"]


def test_partitions_of_one_gpu_share_its_counters() -> None:
    cluster = builders.cluster_inventory(*builders.mig_slices(gpus=2))
    halves = builders.claim(builders.request("gpu", HALF, count=3))
    assert allocating.devices(cluster, halves) == ["gpu-0-half-0", "gpu-0-half-1", "gpu-1-half-0"]
    both = builders.claim(builders.request("a", WHOLE), builders.request("b", HALF))
    assert allocating.devices(cluster, both) == ["gpu-0", "gpu-1-half-0"]


def test_partitions_on_other_nodes_draw_from_the_same_counters() -> None:
    counters = {"set": {"lanes": "1"}}
    cluster = builders.cluster_inventory(
        builders.resource_slice(
            builders.device("here", consumes={"set": {"lanes": "1"}}), pool="p", slices=3
        ),
        builders.resource_slice(
            builders.device("there", consumes={"set": {"lanes": "1"}}),
            node="n2",
            pool="p",
            slices=3,
            name="there",
        ),
        builders.resource_slice(node="n2", pool="p", slices=3, name="sets", counters=counters),
    )
    claim = builders.claim(builders.request())
    assert allocating.devices(cluster, claim) == ["here"]
    builders.hold(cluster, "other", "there", pool="p")
    allocating.rejection(cluster, claim)


def test_the_first_share_of_a_partition_pays_for_all() -> None:
    resource_slice = builders.resource_slice(
        builders.device(
            "d", consumes={"set": {"lanes": "1"}}, capacity={"memory": "8"}, shareable=True
        ),
        slices=2,
    )
    sets = builders.resource_slice(name="sets", slices=2, counters={"set": {"lanes": "1"}})
    cluster = builders.cluster_inventory(resource_slice, sets)
    wanted = [builders.request(name, capacity={"memory": "2"}) for name in "abc"]
    assert allocating.devices(cluster, builders.claim(*wanted)) == ["d", "d", "d"]
    builders.hold(cluster, "other", "d", share={"memory": "6"})
    assert allocating.devices(cluster, builders.claim(wanted[0])) == ["d"]
