"""`dray bench allocate` on small scenarios."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.bench import allocate
from dray.bench.churn import run as churn
from tests import builders


def scenario(*claims: Any, nodes: int = 2, **more: Any) -> dict[str, Any]:
    names = [f"n{number}" for number in range(nodes)]
    return {
        "name": "small",
        "nodes": [msgspec.to_builtins(builders.node(name)) for name in names],
        "slices": [msgspec.to_builtins(builders.gpu_slice(name, 2)) for name in names],
        "classes": [msgspec.to_builtins(builders.device_class())],
        "claims": [msgspec.to_builtins(claim) for claim in claims],
        **more,
    }


def one(name: str, *selectors: str, **fields: Any) -> Any:
    return builders.claim(builders.request("gpu", *selectors, **fields), name=name)


def test_claims_go_to_the_first_node_that_has_room() -> None:
    report = allocate.run(scenario(*[one(f"c{number}") for number in range(5)]))
    assert report.answers == {
        "c0": {"node": "n0", "devices": ["gpu=gpu.example.com/n0/gpu-0"]},
        "c1": {"node": "n0", "devices": ["gpu=gpu.example.com/n0/gpu-1"]},
        "c2": {"node": "n1", "devices": ["gpu=gpu.example.com/n1/gpu-0"]},
        "c3": {"node": "n1", "devices": ["gpu=gpu.example.com/n1/gpu-1"]},
        "c4": None,
    }
    assert (report.claims, report.allocated) == (5, 4)
    assert list(report.refusals) == ["c4"]


def test_rotation_goes_on_with_the_next_node() -> None:
    claims = [one(f"c{number}") for number in range(4)]
    report = allocate.run(scenario(*claims), start=allocate.ROTATE)
    assert [answer["node"] for answer in report.answers.values()] == ["n0", "n1", "n0", "n1"]


def test_a_failure_is_an_answer() -> None:
    report = allocate.run(scenario(one("c0", cls="none")))
    assert report.answers["c0"]["error"].startswith("claim default/c0, request gpu: could not")


def test_shares_are_written_with_what_they_consume() -> None:
    given = scenario(one("c0", capacity={"memory": "10Gi"}))
    given["slices"] = [msgspec.to_builtins(builders.gpu_slice("n0", 1, shareable=True))]
    report = allocate.run(given)
    assert report.answers["c0"]["devices"] == ['gpu=gpu.example.com/n0/gpu-0@{"memory":"10Gi"}']


def test_claims_that_are_allocated_count_as_taken() -> None:
    first = allocate.run(scenario(one("c0")))
    assert first.answers["c0"] is not None
    held = msgspec.to_builtins(one("held"))
    result = {"request": "gpu", "driver": builders.DRIVER, "pool": "n0", "device": "gpu-0"}
    held["status"] = {"allocation": {"devices": {"results": [result]}}}
    given = scenario(one("c0"))
    given["claims"].insert(0, held)
    report = allocate.run(given)
    assert report.claims == 1
    assert report.answers == {"c0": {"node": "n0", "devices": ["gpu=gpu.example.com/n0/gpu-1"]}}


def test_the_first_difference_to_recorded_answers_is_found() -> None:
    given = scenario(one("c0"), one("c1"))
    recorded = allocate.run(given).answers
    assert allocate.run(given, answers=recorded).difference is None
    changed = {**recorded, "c1": None}
    difference = allocate.run(given, answers=changed).difference
    assert difference is not None
    assert (difference.claim, difference.expected) == ("c1", None)


def test_progress_is_told_after_every_claim() -> None:
    seen: list[tuple[int, int]] = []
    allocate.run(scenario(one("c0"), one("c1")), progress=lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]


def test_the_figures_have_the_names_that_are_documented() -> None:
    figures = allocate.run(scenario(one("c0"))).figures()
    assert {
        "claims",
        "allocated",
        "claims_per_s",
        "p50_ms",
        "p99_ms",
        "max_ms",
        "memory_bytes",
        "first_claim_s",
    } <= set(figures)
    assert figures["memory_bytes"] > 0


def test_a_policy_changes_which_device_is_taken() -> None:
    given = scenario(one("c0"))
    sizes = builders.resource_slice(
        builders.gpu("big"), builders.gpu("small", memory="10Gi"), node="n0"
    )
    given["slices"] = [msgspec.to_builtins(sizes)]
    assert allocate.run(given).answers["c0"]["devices"] == ["gpu=gpu.example.com/n0/big"]
    report = allocate.run(given, policy="best-fit")
    assert report.answers["c0"]["devices"] == ["gpu=gpu.example.com/n0/small"]


def test_churn_keeps_the_fleet_full() -> None:
    report = churn(10, steps=50, signatures=7)
    assert report.placed == report.steps == 50
