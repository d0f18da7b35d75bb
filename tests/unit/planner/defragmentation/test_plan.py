"""Plans of moves: who moves where, in which order, and why there is no plan."""

from __future__ import annotations

import pytest

from dray.api.ids import ObjectKey
from dray.planner.defragmentation import plan as planning
from dray.planner.defragmentation.movable_pods import StayReason
from dray.planner.defragmentation.plan import Defragmentation
from dray.planner.what_if.compare import PodPosition
from tests.unit.planner.defragmentation.running import (
    allocated,
    budget,
    cluster,
    incoming,
    node,
    pod,
    running,
)


def moves(found: Defragmentation) -> list[str]:
    """The moves in short: POD NODE:DEVICES>NODE:DEVICES."""
    assert found.moves is not None
    return [
        " + ".join(
            f"{pod.key.name} {place(pod.before)}>{place(pod.after) if pod.after else ''}"
            for pod in move.pods
        )
        for move in found.moves
    ]


def place(position: PodPosition) -> str:
    devices = ",".join(device.device.removeprefix("gpu-") for device in position.devices)
    return f"{position.node}:{devices}" if devices else position.node


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


class TestEmptyNode:
    def test_all_pods_of_the_node_move(self) -> None:
        model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n1:1"))
        found = planning.empty_node(model, "n1")
        assert moves(found) == ["a n1:0>n2:0", "b n1:1>n2:1"]
        assert found.is_proved
        assert [move.cordoned for move in found.moves or ()] == [{"n1"}, {"n1"}]

    def test_an_empty_node_needs_no_move(self) -> None:
        found = planning.empty_node(cluster({"n1": 2}), "n1")
        assert (found.moves, found.is_proved) == ([], True)

    def test_pods_that_belong_to_the_node_stay(self) -> None:
        daemon = running("a", "n1:0", kind="DaemonSet")
        static = pod("static", "n1", kind="")
        static.metadata.annotations["kubernetes.io/config.mirror"] = "x"
        model = cluster({"n1": 2, "n2": 0}, daemon, static)
        assert planning.empty_node(model, "n1").moves == []

    def test_a_pod_of_another_node_makes_room(self) -> None:
        # The pod of n1 needs two GPUs of one node, and each of the others has one left.
        model = cluster(
            {"n1": 2, "n2": 2, "n3": 2},
            running("a", "n1:0,1"),
            running("b", "n2:0"),
            running("c", "n3:0"),
        )
        found = planning.empty_node(model, "n1")
        assert (moves(found), found.is_proved) == (["b n2:0>n3:1", "a n1:0,1>n2:0,1"], True)

    def test_without_a_spare_place_there_is_no_plan(self) -> None:
        model = cluster({"n1": 1, "n2": 1}, running("a", "n1:0"), running("b", "n2:0"))
        found = planning.empty_node(model, "n1")
        assert (found.moves, found.is_proved, found.without_place) == (None, True, [key("a")])

    def test_bare_pods_are_only_deleted_on_request(self) -> None:
        model = cluster({"n1": 1, "n2": 1}, running("a", "n1:0", kind=""))
        found = planning.empty_node(model, "n1")
        assert (found.moves, found.obstacles) == (None, {key("a"): StayReason.BARE})
        assert moves(planning.empty_node(model, "n1", include_bare=True)) == ["a n1:0>"]

    def test_pods_of_other_schedulers_stay(self) -> None:
        model = cluster({"n1": 1, "n2": 1}, running("a", "n1:0", schedulerName="other"))
        assert planning.empty_node(model, "n1").obstacles == {key("a"): StayReason.SCHEDULER}

    def test_without_its_template_a_pod_would_not_come_back(self) -> None:
        made = pod("a", "n1", templates={"gpu": "gone"})
        found = planning.empty_node(cluster({"n1": 1, "n2": 1}, made), "n1")
        assert found.obstacles == {key("a"): StayReason.TEMPLATE}

    def test_pods_that_share_a_claim_move_together(self) -> None:
        users = [pod(name, "n1", claims={"gpu": "shared"}) for name in ("a", "b")]
        claim = allocated("shared", "n1", ["gpu-0"], users)
        model = cluster({"n1": 1, "n2": 1}, users, claim)
        assert moves(planning.empty_node(model, "n1")) == ["a n1:0>n2:0 + b n1:0>n2:0"]

    def test_pods_without_devices_move_too(self) -> None:
        model = cluster({"n1": 0, "n2": 0}, pod("a", "n1"))
        assert moves(planning.empty_node(model, "n1")) == ["a n1>n2"]

    def test_the_order_lets_every_pod_find_its_place(self) -> None:
        # If "small" moved first, the scheduler would put it where only "large" can go.
        model = cluster(
            {"n1": 3, "n2": 2, "n3": 1}, running("small", "n1:0"), running("large", "n1:1,2")
        )
        found = planning.empty_node(model, "n1")
        assert sorted(moves(found)) == ["large n1:1,2>n2:0,1", "small n1:0>n3:0"]


class TestRoom:
    def test_one_pod_moves_to_the_other_half(self) -> None:
        model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"))
        found = planning.room_for(model, [incoming()])
        assert (moves(found), found.is_proved) == (["a n1:0>n2:0"], True)
        assert place(found.places[key("train")]) == "n1:0,1"

    def test_what_fits_already_needs_no_move(self) -> None:
        found = planning.room_for(cluster({"n1": 2}), [incoming()])
        assert found.moves == []
        assert place(found.places[key("train")]) == "n1:0,1"

    def test_no_pod_moves_for_one_of_a_lower_priority(self) -> None:
        model = cluster(
            {"n1": 2, "n2": 2}, running("a", "n1:0", priority=9), running("b", "n2:1", priority=5)
        )
        assert moves(planning.room_for(model, [incoming(priority=5)])) == ["b n2:1>n1:1"]
        found = planning.room_for(model, [incoming(priority=4)])
        assert (found.moves, found.is_proved) == (None, True)
        assert found.left_out == {StayReason.PRIORITY: 2}

    def test_of_several_pods_the_lowest_priority_counts(self) -> None:
        model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0", priority=5), pod("b", "n2"))
        large, small = incoming("x", 2, priority=9), incoming("y", 1, priority=5)
        assert planning.room_for(model, [large, small]).moves == []
        model = cluster({"n1": 2, "n2": 1}, running("a", "n1:0", priority=5))
        assert moves(planning.room_for(model, [large])) == ["a n1:0>n2:0"]
        free = incoming("z", 0, priority=4)._replace(claims=())
        lower = free._replace(pod=pod("z", kind="", priority=4))
        found = planning.room_for(model, [large, lower])
        assert (found.moves, found.left_out) == (None, {StayReason.PRIORITY: 1})

    @pytest.mark.parametrize("allowed", [0, 1])
    def test_a_budget_may_forbid_a_move(self, allowed: int) -> None:
        model = cluster(
            {"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"), budget("a", allowed)
        )
        expected = ["a n1:0>n2:0"] if allowed else ["b n2:1>n1:1"]
        assert moves(planning.room_for(model, [incoming()])) == expected

    @pytest.mark.parametrize("allowed", [1, 2])
    def test_pods_that_share_a_claim_count_together_for_a_budget(self, allowed: int) -> None:
        users = [pod(f"a-{number}", "n1", claims={"gpu": "shared"}) for number in (1, 2)]
        claim = allocated("shared", "n1", ["gpu-0"], users)
        model = cluster({"n1": 1, "n2": 1}, users, claim, budget("a", allowed))
        found = planning.empty_node(model, "n1")
        assert (found.moves is not None) is (allowed == 2)

    @pytest.mark.parametrize("allowed", [1, 2])
    def test_lost_pods_stay_on_the_account_of_a_budget(self, allowed: int) -> None:
        bare = [running("a-1", "n1:0", kind=""), running("a-2", "n1:1", kind="")]
        model = cluster({"n1": 2}, *bare, budget("a", allowed))
        found = planning.room_for(model, [incoming()], include_bare=True)
        assert (found.moves is not None) is (allowed == 2)

    def test_a_pod_that_waits_takes_room_first(self) -> None:
        waits = incoming("waits", 2)
        model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"))
        model = model.with_objects([waits.pod, *waits.claims])
        found = planning.room_for(model, [incoming()])
        assert (found.moves, found.is_proved) == (None, True)
        assert moves(planning.room_for(model, [waits])) == ["a n1:0>n2:0"]

    def test_a_node_is_cordoned_where_the_scheduler_would_prefer_it(self) -> None:
        # Both pods that come need a node of their own; the scheduler would use the empty one.
        busy = pod("c", "n2", containers=[{"name": "c", "resources": {"requests": {"cpu": "6"}}}])
        model = cluster(
            {"n1": 2, "n2": 2, "n3": 2}, running("a", "n1:0"), running("b", "n2:0"), busy
        )
        found = planning.room_for(model, [incoming("x"), incoming("y")])
        assert moves(found) in (["a n1:0>n2:1"], ["b n2:0>n1:1"])
        assert all("n3" in move.cordoned for move in found.moves or ())

    def test_a_node_that_was_cordoned_before_stays_so(self) -> None:
        model = cluster({"n1": 2, "n2": 2, "n3": 2}, running("a", "n3:0"), running("b", "n2:1"))
        model = model.with_objects([node("n3", cordoned=True), node("n1", cordoned=True)])
        found = planning.room_for(model, [incoming()])
        assert (found.moves, found.is_proved) == (None, True)
        model = model.with_objects([node("n1")])
        model = model.with_objects(running("c", "n1:0"))
        found = planning.room_for(model, [incoming()])
        assert all("n3" not in move.cordoned for move in found.moves or ())
        assert moves(found) in (["c n1:0>n2:0"], ["b n2:1>n1:1"])

    def test_affinity_to_a_pod_that_moves_is_no_reason_to_give_up(self) -> None:
        term = {
            "labelSelector": {"matchLabels": {"app": "a"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        model = cluster({"n1": 1, "n2": 2}, running("a", "n1:0"))
        item = incoming(count=1, affinity={"podAffinity": required})
        assert moves(planning.room_for(model, [item])) == ["a n1:0>n2:0"]

    def test_a_search_that_ends_early_says_so(self) -> None:
        model = cluster({"n1": 2, "n2": 2}, running("a", "n1:0"), running("b", "n2:1"))
        found = planning.room_for(model, [incoming()], effort=1)
        assert (found.moves, found.is_proved) == (None, False)
