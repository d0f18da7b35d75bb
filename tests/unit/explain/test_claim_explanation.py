"""From claims to an explanation."""

from __future__ import annotations

import msgspec
import pytest

from dray.allocator.model import rejections
from dray.api import features as gates
from dray.api.features import DEFAULT
from dray.api.ids import ClaimKey
from dray.api.types.dra import AllocationResult, ResourceClaimStatus, ResourceSlice
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Outcome
from dray.explain.suggestions import changes
from dray.explain.survey import faults
from dray.explain.survey.filters import FilterKind
from dray.explain.survey.unreachable_slices import UnreachableReason
from dray.explain.text import phrases
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    device,
    gpu,
    gpu_slice,
    hold,
    node,
    nodes_labelled,
    request,
    resource_slice,
)


def test_claims_that_fit_say_where() -> None:
    found = claim_explanation.explain(
        cluster_inventory(gpu_slice()), [claim(request())], new_share_id=str
    )
    assert (found.outcome, found.node) == (Outcome.FITS, "n1")
    assert [device.device.device for device in found.devices] == ["gpu-0"]


def test_only_the_given_nodes_come_into_question() -> None:
    cluster = cluster_inventory(gpu_slice("n1"), gpu_slice("n2", 1))
    asked = [claim(request("gpu", count=2))]
    found = claim_explanation.explain(cluster, asked, new_share_id=str, nodes=["n2"])
    assert (found.outcome, found.nodes) == (Outcome.REFUSED, 1)
    assert {change.node for change in found.changes} == {"n2"}


def test_allocated_claim_of_the_pod_leaves_its_nodes() -> None:
    cluster = cluster_inventory(gpu_slice("n1"), nodes=[node("n2", labels={"zone": "z"})])
    bound = AllocationResult(node_selector=nodes_labelled("zone", "z"))
    data = msgspec.structs.replace(claim(request(), name="data"), status=ResourceClaimStatus(bound))
    found = claim_explanation.explain(cluster, [data, claim(request())], new_share_id=str)
    assert (found.outcome, found.nodes) == (Outcome.REFUSED, 1)
    assert found.allocated == (ClaimKey("default", "data"),)


def test_nodes_that_come_closest_are_named_first() -> None:
    cluster = cluster_inventory(
        gpu_slice("n1", 2),
        gpu_slice("n2", 1, product="A100"),
        nodes=[node(f"cpu{number}") for number in range(5)],
    )
    hold(cluster, "other", "gpu-0", "gpu-1")
    selector = f'device.attributes["{DRIVER}"].productName == "H100"'
    found = claim_explanation.explain(cluster, [claim(request("gpu", selector))], new_share_id=str)
    causes = [(reason.filter and reason.filter.kind, reason.nodes) for reason in found.reasons]
    assert causes == [(FilterKind.TAKEN, 1), (FilterKind.SELECTOR, 1), (None, 5)]


def test_requests_that_fit_alone_are_refused_by_the_allocators_verdict() -> None:
    devices = [gpu(f"gpu-{number}", attributes={"side": number % 3}) for number in range(5)]
    found = claim_explanation.explain(
        cluster_inventory(resource_slice(*devices), resource_slice(*devices[:3], node="n2")),
        [claim(request("gpu", count=3), match=f"{DRIVER}/side")],
        new_share_id=str,
    )
    (reason,) = found.reasons
    assert reason.nodes == 2
    assert reason.rejection == rejections.NoCommonValue(0, "gpu", f"{DRIVER}/side", 3, 2, "0")


def test_failure_carries_upstreams_words_and_every_fault() -> None:
    asked = claim(request("gpu", "nonsense", cls="gpu"), request("nic", cls="nics"))
    found = claim_explanation.explain(cluster_inventory(gpu_slice()), [asked], new_share_id=str)
    assert found.outcome is Outcome.FAILED
    assert found.message.startswith("claim default/train, request nic: could not retrieve device")
    assert [type(fault) for fault in found.faults] == [faults.SelectorBroken, faults.ClassUnknown]


@pytest.mark.parametrize(
    ("gate", "asked"),
    [
        ("admin_access", request("gpu", admin=True)),
        ("consumable_capacity", request("gpu", capacity={"memory": "1Gi"})),
        ("derived_attributes", request("gpu", derived={"a/b": "1"})),
    ],
)
def test_gate_that_a_request_needs_is_named(gate: str, asked: object) -> None:
    features = msgspec.structs.replace(DEFAULT, **{gate: False})
    found = claim_explanation.explain(
        cluster_inventory(gpu_slice(), features=features),
        [claim(asked)],  # type: ignore[arg-type]
        new_share_id=str,
    )
    (fault,) = found.faults
    assert isinstance(fault, faults.GateOff)


def test_slices_that_no_node_sees_are_named_with_the_cause() -> None:
    far = resource_slice(gpu("far"), node=None, node_selector=nodes_labelled("zone", "z"))
    cluster = cluster_inventory(far, gpu_slice("gone", 2), nodes=[node("n1")])
    cluster.drop_node("gone")
    found = claim_explanation.explain(cluster, [claim(request())], new_share_id=str)
    causes = {(stray.cause, stray.devices) for stray in found.unreachable_slices}
    assert causes == {(UnreachableReason.NO_NODE_MATCHES, 1), (UnreachableReason.NO_SUCH_NODE, 2)}


def test_search_is_given_up_after_many_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [gpu(f"gpu-{n}", attributes={"a": n % 4, "b": n % 5}) for n in range(24)]
    broken = f'device.attributes["{DRIVER}"].a >= 0'
    asked = claim(
        request("x", broken, count=8),
        request("y", broken, count=8),
        match=f"{DRIVER}/a",
        distinct=f"{DRIVER}/b",
    )
    monkeypatch.setattr(
        "dray.explain.suggestions.change_tester.BoundedAllocator._is_budget_spent",
        lambda self: True,
    )
    found = claim_explanation.explain(
        cluster_inventory(resource_slice(*devices)), [asked], new_share_id=str
    )
    assert found.outcome is Outcome.UNDECIDED


def test_fleet_holds_what_it_held_before() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 2))
    hold(cluster, "a", "gpu-0")
    hold(cluster, "b", "gpu-1")
    features, classes = cluster.features, dict(cluster.classes)
    claim_explanation.explain(cluster, [claim(request("gpu", count=2))], new_share_id=str)
    assert cluster.release(ClaimKey("default", "a")) is not None
    assert cluster.release(ClaimKey("default", "b")) is not None
    assert (cluster.features, cluster.classes) == (features, classes)


FAST = f'device.attributes["{DRIVER}"].fast'
GUARDED = f"has({FAST}) && {FAST}"


def fast(node_name: str, *values: bool | None) -> ResourceSlice:
    """Return a slice with devices that have the attribute, or lack it where it is None."""
    devices = [
        device(f"gpu-{number}", attributes={} if value is None else {"fast": value})
        for number, value in enumerate(values)
    ]
    return resource_slice(*devices, node=node_name)


def test_a_selector_that_fails_after_the_first_fit_is_an_error() -> None:
    slices = [fast("n1", True, True), fast("n2", None, True, None), fast("n3", None)]
    cluster = cluster_inventory(*slices)
    found = claim_explanation.explain(cluster, [claim(request("gpu", FAST))], new_share_id=str)
    assert found.outcome is Outcome.FAILED
    [fault] = found.faults
    assert isinstance(fault, faults.SelectorFails)
    assert (fault.failing, fault.total) == (3, 6)
    named = [f"{failing.pool}/{failing.device}" for failing in fault.devices]
    assert named == ["n2/gpu-0", "n2/gpu-2", "n3/gpu-0"]
    assert phrases.fault(fault) == (
        "selector 0 cannot be evaluated on 3 of 6 devices: n2/gpu-0, n2/gpu-2 and n3/gpu-0"
    )
    [change, *_] = found.changes
    assert isinstance(change, changes.ReplaceSelector)
    assert (change.replacement, change.node) == (GUARDED, "n1")
    guarded = claim_explanation.explain(cluster, [claim(request("gpu", GUARDED))], new_share_id=str)
    assert (guarded.outcome, guarded.node) == (Outcome.FITS, "n1")


def test_nodes_that_do_not_come_into_question_have_no_errors() -> None:
    cluster = cluster_inventory(fast("n1", True), fast("n2", None))
    asked = [claim(request("gpu", FAST))]
    found = claim_explanation.explain(cluster, asked, new_share_id=str, nodes=["n1"])
    assert (found.outcome, found.node) == (Outcome.FITS, "n1")


def test_errors_beyond_the_nodes_that_are_looked_for_do_not_count() -> None:
    slices = [fast(f"n{number}", True) for number in range(1, 102)]
    asked = [claim(request("gpu", FAST))]
    cluster = cluster_inventory(fast("n0", None), *slices[:-1])
    found = claim_explanation.explain(cluster, asked, new_share_id=str)
    assert found.outcome is Outcome.FAILED
    cluster = cluster_inventory(fast("n0", None), *slices)
    found = claim_explanation.explain(cluster, asked, new_share_id=str)
    assert (found.outcome, found.node) == (Outcome.FITS, "n1")


@pytest.mark.parametrize(("version", "is_suggested"), [("1.34", False), ("1.37", True)])
def test_only_gates_that_the_version_has_are_suggested(version: str, is_suggested: bool) -> None:
    cluster = cluster_inventory(gpu_slice("n1"), features=gates.for_version(version))
    asked = [claim(request("gpu", derived={f"{DRIVER}/side": "1"}))]
    found = claim_explanation.explain(cluster, asked, new_share_id=str)
    assert found.outcome is Outcome.FAILED
    suggested = [change for change in found.changes if isinstance(change, changes.EnableGate)]
    assert bool(suggested) == is_suggested
