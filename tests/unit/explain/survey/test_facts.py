"""What devices publish of the things that gates name."""

from __future__ import annotations

from dray.allocator.inventory.cluster_inventory import ClusterInventory
from dray.allocator.model import requests
from dray.allocator.problem import resolution
from dray.api.types.dra import ResourceClaim
from dray.explain.survey import facts, node_survey
from dray.explain.survey.facts import ClauseCount, Count, FilterFacts, Similar
from tests.builders import (
    DRIVER,
    claim,
    cluster_inventory,
    gpu,
    gpu_slice,
    node,
    request,
    resource_slice,
)

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
CAPACITY = f'device.capacity["{DRIVER}"]'


def observed(cluster: ClusterInventory, asked: ResourceClaim) -> tuple[FilterFacts, ...]:
    question = requests.parse_claim(asked.spec.devices)
    resolved = resolution.resolve([question], cluster.classes, cluster.selectors, cluster.features)
    found = node_survey.survey_nodes(cluster, list(cluster.nodes), resolved)
    observations = facts.observe(cluster, found, resolved)
    return tuple(observation.facts for observation in observations)


def two_models() -> ClusterInventory:
    return cluster_inventory(gpu_slice("n1", 4), gpu_slice("n2", 2, product="A100", memory="40Gi"))


def test_misspelt_attribute_exists_nowhere_and_another_one_comes_close() -> None:
    (found,) = observed(two_models(), claim(request("gpu", f'{ATTRIBUTES}.productname == "H100"')))
    (subject,) = found.subjects
    assert (subject.devices, subject.total) == (0, 6)
    assert subject.similar == (Similar("attributes", DRIVER, "productName", 6),)
    assert subject.domains == ()


def test_unknown_domain_is_told_with_those_that_are_published() -> None:
    selector = 'has(device.attributes["rack.example.com"].row)'
    (found,) = observed(two_models(), claim(request("gpu", selector)))
    assert found.subjects[0].domains == (Count(DRIVER, 6),)


def test_attribute_that_is_a_capacity() -> None:
    (found,) = observed(two_models(), claim(request("gpu", f'{ATTRIBUTES}.memory == "80Gi"')))
    assert found.subjects[0].similar == (Similar("capacity", DRIVER, "memory", 6),)


def test_values_are_counted_the_most_common_first() -> None:
    (found,) = observed(two_models(), claim(request("gpu", f'{ATTRIBUTES}.productName == "B200"')))
    assert found.subjects[0].values == (Count("H100", 4), Count("A100", 2))


def test_least_and_most_of_a_quantity() -> None:
    selector = f'{CAPACITY}.memory.compareTo(quantity("96Gi")) >= 0'
    (found,) = observed(two_models(), claim(request("gpu", selector)))
    assert (found.subjects[0].least, found.subjects[0].most) == ("40Gi", "80Gi")
    assert found.subjects[0].types == (Count("quantity", 6),)


def test_clauses_count_what_is_left_and_look_at_what_comes_to_them() -> None:
    first = f'{ATTRIBUTES}.productName == "A100"'
    second = f'{CAPACITY}.memory.compareTo(quantity("80Gi")) >= 0'
    (found,) = observed(two_models(), claim(request("gpu", f"{first} && {second}")))
    assert found.clauses == (ClauseCount(first, 2), ClauseCount(second, 0))
    memory = next(subject for subject in found.subjects if subject.name == "memory")
    assert (memory.total, memory.most) == (2, "40Gi")


def test_capacity_compared_with_a_text_is_a_mistake_even_if_it_does_not_compile() -> None:
    (found,) = observed(two_models(), claim(request("gpu", f'{CAPACITY}.memory >= "40Gi"')))
    (mistake,) = found.mistakes
    assert (mistake.has, mistake.given) == ("quantity", "string")


def test_device_that_several_nodes_reach_counts_once() -> None:
    shared = resource_slice(gpu("far-0"), node=None, all_nodes=True)
    cluster = cluster_inventory(shared, nodes=[node("n1"), node("n2")])
    (found,) = observed(cluster, claim(request("gpu", "false")))
    assert found.devices == 1


def test_attributes_of_constraints_and_names_of_capacities_are_looked_up() -> None:
    cluster = cluster_inventory(gpu_slice("n1", 2, shareable=True, attributes={"numaNode": 1}))
    asked = request("gpu", count=2, capacity={"memroy": "1Gi"})
    (capacity,) = observed(cluster, claim(asked))
    assert capacity.subjects[0].similar == (Similar("capacity", "", "memory", 2),)
    (constraint,) = observed(cluster, claim(request("gpu", count=2), match=f"{DRIVER}/numanode"))
    assert constraint.subjects[0].similar == (Similar("attributes", DRIVER, "numaNode", 2),)
