"""How many machines are needed, what proves it, and what is said if none help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from dray.api.types.dra import ResourceSlice
from dray.api.types.meta import ObjectMeta
from dray.api.types.nodes import Node, NodeStatus
from dray.planner.cluster_model import ClusterModel
from dray.planner.sizing import fewest_machines as sizing
from dray.planner.sizing import machine_types
from dray.planner.sizing.fewest_machines import Sizing
from dray.planner.sizing.machine_types import MachineType
from dray.planner.sizing.trials import Submit
from dray.planner.submission import submitted_pods
from dray.planner.submission.submitted_pods import Submission, SubmittedPod
from tests import builders

EMPTY = ClusterModel().with_objects([builders.device_class()])


def node(name: str, cpu: int = 8, zone: str = "a") -> Node:
    labels = {"kubernetes.io/hostname": name, "zone": zone}
    amounts = {"cpu": str(cpu), "pods": "50"}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable=amounts))


def machines(name: str, gpus: int, cpu: int = 8, zone: str = "a", **gpu: Any) -> MachineType:
    def make(count: int) -> Iterator[Node | ResourceSlice]:
        for number in range(count):
            yield node(f"{name}-{number}", cpu, zone)
            if gpus:
                yield builders.gpu_slice(f"{name}-{number}", gpus, **gpu)

    return MachineType(name, make)


def gpu_pod(name: str, gpus: int = 1, cpu: int = 1, **spec: Any) -> SubmittedPod:
    resources = {"requests": {"cpu": str(cpu)}}
    spec["containers"] = [{"name": "main", "image": "i", "resources": resources}]
    if not gpus:
        return SubmittedPod(builders.pod(name, uid=name, **spec))
    pod = builders.pod(name, claims={"gpu": name}, uid=name, **spec)
    return SubmittedPod(pod, [builders.claim(builders.request(count=gpus), name=name)])


def pods(number: int, **options: Any) -> list[SubmittedPod]:
    return [gpu_pod(f"p{each}", **options) for each in range(number)]


def submitting(items: Sequence[SubmittedPod]) -> Submit:
    return lambda cluster: Submission(cluster, items, submitted_pods.waiting(cluster))


def answer(
    items: Sequence[SubmittedPod], *types: MachineType, cluster: ClusterModel = EMPTY
) -> Sizing:
    return sizing.fewest_machines(cluster, submitting(items), types)


@pytest.fixture
def count_trials(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often pods were placed."""
    from dray.planner.placement import place as placing

    calls, place = [], placing.place

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return place(*args, **options)

    monkeypatch.setattr(placing, "place", counted)
    return lambda: len(calls)


def test_nothing_is_added_where_everything_fits() -> None:
    cluster = EMPTY.with_objects([node("n"), builders.gpu_slice("n", 4)])
    found = answer(pods(4), machines("big", 8), cluster=cluster)
    assert (found.counts, found.is_proved, found.one_less) == ((0,), True, [])
    assert {planned.node for planned in found.pods} == {"n"}


def test_a_cluster_without_nodes_grows_from_zero() -> None:
    found = answer(pods(3), machines("small", 1), machines("big", 8))
    assert (found.counts, found.is_proved) == ((0, 1), True)
    assert len(found.pods_on(found.types[1])) == 3
    (less,) = found.one_less
    assert less.type.name == "big"
    assert len(less.waiting.pods) == 3
    assert less.waiting.nodes == 0


def test_types_are_mixed_if_that_takes_fewer_machines() -> None:
    large, odd = machines("large", 4), machines("odd", 1, product="B")
    of_b = f'device.attributes["{builders.DRIVER}"].productName == "B"'
    claim = builders.claim(builders.request("gpu", of_b), name="b")
    pod = SubmittedPod(builders.pod("b", claims={"gpu": "b"}, uid="b"), [claim])
    found = answer([pod, *pods(6)], odd, large)
    assert (found.counts, found.machines) == ((1, 2), 3)
    assert [less.type.name for less in found.one_less] == ["odd", "large"]
    waiting = [[each.submitted.pod.metadata.name for each in less.waiting.pods]
               for less in found.one_less]  # fmt: skip
    assert waiting[0] == ["b"]


def test_of_equally_few_machines_the_first_types_win() -> None:
    for names in (("a", "b"), ("b", "a")):
        found = answer(pods(4), *(machines(name, 2) for name in names))
        assert (found.counts, [type_.name for type_ in found.types]) == ((2, 0), list(names))


def test_classes_come_with_the_machines_unless_they_are_there() -> None:
    class_ = builders.device_class("gpu", "true")
    type_ = machines("big", 2)._replace(classes=[class_])
    assert answer(pods(1), type_, cluster=ClusterModel()).counts == (1,)
    (kept,) = machine_types.with_machines(EMPTY, [type_], [2]).of(type(class_))
    assert kept == builders.device_class()


def test_more_than_eight_are_proved_by_what_is_needed_in_sum(
    count_trials: Callable[[], int],
) -> None:
    found = answer(pods(40), machines("small", 2), machines("tiny", 1))
    assert (found.counts, found.is_proved) == ((20, 0), True)
    assert count_trials() < 20


def test_a_pod_for_itself_on_each_machine_is_proved_one_by_one() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    alone = pods(11, gpus=0, affinity={"podAntiAffinity": rule})
    found = answer(alone, machines("any", 0))
    assert (found.counts, found.is_proved) == ((11,), True)


def test_a_large_answer_without_a_proof_cannot_be_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "_DECISIONS_LIMIT", 0)
    # Three of five CPUs each: every machine has room for one, which sums do not show.
    found = answer(pods(12, gpus=0, cpu=3), machines("a", 0, cpu=5), machines("b", 0, cpu=4))
    assert (found.counts, found.is_proved) == ((12, 0), False)
    assert all(less.waiting.pods for less in found.one_less)
    monkeypatch.undo()
    found = answer(pods(12, gpus=0, cpu=3), machines("a", 0, cpu=5), machines("b", 0, cpu=4))
    assert (found.counts, found.is_proved) == ((12, 0), True)


def test_machines_that_are_in_the_way_are_not_added() -> None:
    """More machines may be worse: here, one in another zone that nobody can use."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
    }
    items = pods(2, topologySpreadConstraints=[spread])
    useful, useless = machines("useful", 2, zone="a"), machines("useless", 0, zone="b")
    assert answer(items, useless, useful).counts == (0, 1)
    with_both = machine_types.with_machines(EMPTY, [useless, useful], (1, 1))
    assert sizing.fewest_machines(with_both, submitting(items), [useless]).counts is None


@pytest.mark.parametrize("number", [1, 30])
def test_a_pod_that_no_machine_helps_is_named(number: int, count_trials: Callable[[], int]) -> None:
    items = [*pods(number), gpu_pod("large", gpus=9)]
    found = answer(items, machines("a", 8), machines("b", 4))
    assert (found.counts, found.is_proved, found.waiting.nodes) == (None, True, 2)
    assert [each.submitted.pod.metadata.name for each in found.waiting.pods] == ["large"]
    assert count_trials() == 1


def test_what_the_api_server_refuses_is_not_helped() -> None:
    found = answer([gpu_pod("p")._replace(refusal="exceeded quota")], machines("a", 8))
    assert (found.counts, found.is_proved) == (None, True)
    (refused,) = found.waiting.pods
    assert refused.submitted.refusal == "exceeded quota"


def test_machines_on_which_nothing_fits_are_refused_with_a_proof() -> None:
    cluster = EMPTY.with_objects([node("n"), builders.gpu_slice("n", 1)])
    found = answer(pods(2), machines("without", 0), cluster=cluster)
    assert (found.counts, found.is_proved) == (None, True)
    assert [each.submitted.pod.metadata.name for each in found.waiting.pods] == ["p1"]


def test_pods_that_wait_already_come_first() -> None:
    waiting = [
        builders.pod(f"w{each}", claims={"gpu": f"w{each}"}, uid=f"w{each}") for each in (0, 1)
    ]
    claims = [builders.claim(builders.request(), name=pod.metadata.name) for pod in waiting]
    cluster = EMPTY.with_objects([*waiting, *claims])
    assert answer(pods(1), machines("small", 1), cluster=cluster).counts == (3,)
    assert answer([], machines("small", 1), cluster=cluster).counts == (2,)
    found = answer([], machines("without", 0), cluster=cluster)
    assert (found.counts, found.is_proved) == (None, True)


def test_no_running_pod_is_evicted_to_make_room() -> None:
    running = builders.pod(
        "r", uid="r", nodeName="n", priority=0,
        containers=[{"name": "main", "image": "i", "resources": {"requests": {"cpu": "8"}}}],
    )  # fmt: skip
    preempting = msgspec.structs.replace(EMPTY.features, preemption=True)
    cluster = ClusterModel(features=preempting).with_objects([node("n"), running])
    items = pods(1, gpus=0, priority=10)
    found = answer(items, machines("any", 0), cluster=cluster)
    assert found.counts == (1,)
    (less,) = found.one_less
    assert [pod.metadata.name for pod in less.waiting.pods[0].evicted] == ["r"]


def test_a_daemon_set_has_a_pod_on_each_new_machine() -> None:
    """The pods that are submitted depend on the machines."""

    def submit(cluster: ClusterModel) -> Submission:
        daemons = [
            gpu_pod(f"d-{each.metadata.name}", gpus=0, cpu=6,
                    nodeSelector={"kubernetes.io/hostname": each.metadata.name})
            for each in cluster.of(Node)
        ]  # fmt: skip
        return Submission(cluster, [*daemons, *pods(4, gpus=0, cpu=2)])

    assert sizing.fewest_machines(EMPTY, submit, [machines("any", 0)]).counts == (4,)


def test_a_pod_that_wants_a_neighbour_is_not_given_up() -> None:
    """Alone it fits nowhere: the pod that it has to be beside comes later."""
    selector = {"matchLabels": {"app": "leader"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    follower = gpu_pod("follower", affinity={"podAffinity": rule})
    leader = gpu_pod("leader")
    metadata = msgspec.structs.replace(leader.pod.metadata, labels={"app": "leader"})
    leader = leader._replace(pod=msgspec.structs.replace(leader.pod, metadata=metadata))
    assert answer([follower, leader], machines("pair", 2)).counts == (1,)
