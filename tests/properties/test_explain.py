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
from tests.properties import clusters, problems

NODES = 6
"""Most look like another one, or have the same devices in another order."""


def explained(problem: problems.Problem) -> Explanation:
    cluster = clusters.cluster_of(problem)
    found = claim_explanation.explain(
        cluster, problem.claims, new_share_id=lambda: clusters.SHARE_ID
    )
    again = claim_explanation.explain(
        cluster, problem.claims, new_share_id=lambda: clusters.SHARE_ID
    )
    assert explanation_text.as_json(found) == explanation_text.as_json(again)
    return found


@rounds.examples(150, long=5000)
@hypothesis.given(st.integers(min_value=0, max_value=2**63))
@hypothesis.example(116651)
def test_every_no_has_a_cause_and_every_change_helps(seed: int) -> None:
    problem = problems.draw(random.Random(seed))
    result = clusters.result_of(clusters.cluster_of(problem), problem.claims, problems.NODE)
    found = explained(problem)
    assert (found.outcome is Outcome.FITS) == isinstance(result, list)
    if found.outcome is Outcome.FAILED:
        assert found.message == result
        assert found.faults
    elif found.outcome is Outcome.REFUSED:
        assert found.reasons
    for change in found.changes:
        cluster = clusters.cluster_of(problem)
        with change.applied_in(cluster):
            changed = change.applied_to(problem.claims)
            assert isinstance(clusters.allocator_on(cluster).allocate_on(changed, change.node), Fit)


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
    cluster = clusters.cluster_of(models[0])
    for number in range(NODES):
        node = f"node-{number}"
        cluster.put_node(Node(ObjectMeta(name=node)))
        for resource_slice in dice.choice(models).slices:
            cluster.put_slice(moved(resource_slice, node, dice))
            for device in resource_slice.spec.devices if dice.random() < 0.3 else ():
                if dice.random() < 0.5:
                    hold(cluster, node, resource_slice, device.name)
    return claim_explanation.explain(
        cluster, models[0].claims, new_share_id=lambda: clusters.SHARE_ID
    )


def moved(resource_slice: ResourceSlice, node: str, dice: random.Random) -> ResourceSlice:
    """The same on another node, sometimes with devices in another order."""
    devices = list(resource_slice.spec.devices)
    if dice.random() < 0.3:
        dice.shuffle(devices)
    spec = msgspec.structs.replace(
        resource_slice.spec,
        node_name=node,
        pool=msgspec.structs.replace(
            resource_slice.spec.pool, name=f"{resource_slice.spec.pool.name}-{node}"
        ),
        devices=tuple(devices),
    )
    name = f"{resource_slice.metadata.name}-{spec.driver}-{spec.pool.name}"
    return ResourceSlice(ObjectMeta(name=name), spec)


def hold(cluster: ClusterInventory, node: str, resource_slice: ResourceSlice, device: str) -> None:
    pool = f"{resource_slice.spec.pool.name}-{node}"
    builders.hold(cluster, f"{pool}-{device}", device, pool=pool, driver=resource_slice.spec.driver)
