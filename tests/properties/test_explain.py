"""Explanations of random problems: a cause for every no, changes that help, nothing left behind."""

from __future__ import annotations

import random

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.placement import Fit
from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node
from dray.explain import claim_explanation
from dray.explain.claim_explanation import Explanation, Outcome
from dray.explain.survey import equivalence
from dray.explain.survey.equivalence import EquivalentNode
from dray.explain.text import explanation_text
from tests import builders, rounds
from tests.properties import problems, worlds

NODES = 6
"""Most look like another one, or have the same devices in another order."""


def explained(problem: problems.Problem) -> Explanation:
    fleet = worlds.fleet_of(problem)
    found = claim_explanation.explain(fleet, problem.claims, new_share_id=lambda: worlds.SHARE_ID)
    again = claim_explanation.explain(fleet, problem.claims, new_share_id=lambda: worlds.SHARE_ID)
    assert explanation_text.as_json(found) == explanation_text.as_json(again)
    return found


@rounds.examples(150, long=5000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_every_no_has_a_cause_and_every_change_helps(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    answer = worlds.answer_of(worlds.fleet_of(problem), problem.claims, problems.NODE)
    found = explained(problem)
    assert (found.outcome is Outcome.FITS) == isinstance(answer, list)
    if found.outcome is Outcome.FAILED:
        assert found.message == answer
        assert found.faults
    elif found.outcome is Outcome.REFUSED:
        assert found.reasons
    for change in found.changes:
        fleet = worlds.fleet_of(problem)
        with change.applied_in(fleet):
            changed = change.applied_to(problem.claims)
            assert isinstance(worlds.placement_on(fleet).allocate_on(changed, change.node), Fit)


@rounds.examples(150, long=5000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
def test_nodes_that_are_alike_are_looked_at_together_to_the_same_effect(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim_explanation, "NODES_TRIED_FIRST", 1)
        together = explained_on_several_nodes(random.Random(seed))
        patch.setattr(
            equivalence,
            "group_nodes",
            lambda _, nodes, paths: [[EquivalentNode(node)] for node in nodes],
        )
        apart = explained_on_several_nodes(random.Random(seed))
    assert explanation_text.as_json(together) == explanation_text.as_json(apart)


def explained_on_several_nodes(dice: random.Random) -> Explanation:
    models = [problems.draw(dice) for _ in range(2)]
    fleet = worlds.fleet_of(models[0])
    for number in range(NODES):
        node = f"node-{number}"
        fleet.put_node(Node(ObjectMeta(name=node)))
        for piece in dice.choice(models).slices:
            fleet.put_slice(moved(piece, node, dice))
            for device in piece.spec.devices if dice.random() < 0.3 else ():
                if dice.random() < 0.5:
                    hold(fleet, node, piece, device.name)
    return claim_explanation.explain(fleet, models[0].claims, new_share_id=lambda: worlds.SHARE_ID)


def moved(piece: ResourceSlice, node: str, dice: random.Random) -> ResourceSlice:
    """The same on another node, sometimes with devices in another order."""
    devices = list(piece.spec.devices)
    if dice.random() < 0.3:
        dice.shuffle(devices)
    spec = msgspec.structs.replace(
        piece.spec,
        node_name=node,
        pool=msgspec.structs.replace(piece.spec.pool, name=f"{piece.spec.pool.name}-{node}"),
        devices=tuple(devices),
    )
    name = f"{piece.metadata.name}-{spec.driver}-{spec.pool.name}"
    return ResourceSlice(ObjectMeta(name=name), spec)


def hold(fleet: ClusterInventory, node: str, piece: ResourceSlice, device: str) -> None:
    pool = f"{piece.spec.pool.name}-{node}"
    builders.hold(fleet, f"{pool}-{device}", device, pool=pool, driver=piece.spec.driver)
