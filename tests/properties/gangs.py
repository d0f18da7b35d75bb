"""Random gangs that are small enough to try every node and device, and whether they fit."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

from dray.api.types.meta import JsonObject
from tests.unit.scheduler.test_podgroups import group, member
from tests.unit.scheduler.world import DRIVER, claim, gpu_slice, node

WHOLE, HALF, SHARE = "whole", "half", "share"
EVERY_NODE = ""
SHARED = ("shared-a", "shared-b")
MEMORY = 4


class Thing(NamedTuple):
    """A device. `parts` of its card are in use while somebody holds it."""

    pool: str
    name: str
    kind: str
    card: str = ""
    parts: int = 0

    @property
    def node(self) -> str:
        return EVERY_NODE if self.pool == "network" else self.pool


class Asked(NamedTuple):
    """One alternative of a request."""

    kind: str
    number: int = 1
    memory: int = 0


class Wanted(NamedTuple):
    """A pod of the gang: its CPU, the names of its claims, and its only nodes if it names some."""

    name: str
    cpu: int
    claims: tuple[str, ...]
    nodes: tuple[str, ...] = ()


class Problem(NamedTuple):
    cpu: dict[str, int]
    things: list[Thing]
    held: set[str]
    claims: dict[str, list[Asked]]
    """The alternatives of the only request of each claim, in the order of preference."""
    pods: list[Wanted]
    minimum: int


def draw(dice: random.Random) -> Problem:
    cpu = {f"node-{number}": dice.randint(2, 7) for number in range(dice.choice((1, 2, 2, 3)))}
    things: list[Thing] = []
    while len(things) < dice.randint(3, 8):
        added = _card(dice, dice.choice([*cpu, *cpu, "network"]), len(things))
        if len(things) + len(added) > 8:
            break
        things += added
    if dice.random() < 0.3:
        cpu, things = _equal_nodes(dice)
    # One of a card at most, which leaves nothing or the other half.
    held = {
        thing.card or thing.name: thing.name
        for thing in things
        if dice.random() < 0.08 and thing.kind != SHARE
    }
    claims = {name: _asked(dice) for name in SHARED}
    pods = []
    kinds = [_kind(dice) for _ in range(dice.choice((1, 2, 2, 3)))]
    for number in range(dice.randint(2, 6)):
        amount, requests, shared = dice.choice(kinds)
        own = {f"pod-{number}-{place}": asked for place, asked in enumerate(requests)}
        claims |= own
        nodes = dice.sample(sorted(cpu), dice.randint(1, len(cpu))) if dice.random() < 0.3 else ()
        pods.append(Wanted(f"pod-{number}", amount, (*own, *shared), tuple(nodes)))
    return Problem(
        cpu,
        things,
        set(held.values()),
        claims,
        pods,
        dice.randint(max(1, len(pods) - 2), len(pods)),
    )


def _equal_nodes(dice: random.Random) -> tuple[dict[str, int], list[Thing]]:
    amount, cards = dice.randint(2, 4), dice.choice((1, 1, 2))
    nodes = dice.choice((2, 4)) // cards
    first = [thing for number in range(cards) for thing in _card(dice, "node-0", number)][:4]
    cpu = {f"node-{number}": amount for number in range(nodes)}
    things = [
        thing._replace(
            pool=name, name=f"{name}-{thing.name}", card=thing.card and f"{name}-{thing.card}"
        )
        for name in cpu
        for thing in first
    ]
    return cpu, things[:8]


def _kind(dice: random.Random) -> tuple[int, list[list[Asked]], list[str]]:
    requests = [_asked(dice) for _ in range(dice.choice((0, 1, 1, 1, 1, 2)))]
    shared = [dice.choice(SHARED)] if dice.random() < 0.25 else []
    return dice.choice((0, 1, 1, 2)), requests, shared


def _asked(dice: random.Random) -> list[Asked]:
    if dice.random() < 0.5:
        return [Asked(WHOLE), Asked(HALF)]
    if dice.random() < 0.15:
        return [Asked(WHOLE, 2), Asked(SHARE, 1, dice.randint(1, MEMORY)), Asked(HALF)]
    if dice.random() < 0.35:
        return [Asked(SHARE, 1, dice.randint(1, MEMORY))]
    return [Asked(dice.choice((WHOLE, WHOLE, HALF)), dice.choice((1, 1, 1, 1, 2)))]


def _card(dice: random.Random, pool: str, number: int) -> list[Thing]:
    if pool == "network" or dice.random() < 0.35:
        return [Thing(pool, f"gpu-{number}", dice.choice((WHOLE, WHOLE, SHARE)))]
    card = f"card-{number}"
    parts = [Thing(pool, f"{card}-{half}", HALF, card, 1) for half in "ab"]
    if dice.random() < 0.3:
        parts[1] = Thing(pool, f"{card}-s", SHARE, card, 1)
    return [Thing(pool, card, WHOLE, card, 2), *parts]


def bodies(problem: Problem, gang: str = "pg") -> Iterator[JsonObject]:
    """Yield everything but the pods as objects of the API."""
    for kind in (WHOLE, HALF, SHARE):
        expression = f'device.attributes["{DRIVER}"].kind == "{kind}"'
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": kind},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
    for name, cpu in problem.cpu.items():
        yield node(name, cpu=str(cpu))
    for pool in (*problem.cpu, "network"):
        yield from _slices(problem, pool)
    for name, alternatives in problem.claims.items():
        yield claim(name, _request(alternatives))
    for thing in problem.things:
        if thing.name in problem.held:
            result = {"request": "gpu", "driver": DRIVER, "pool": thing.pool, "device": thing.name}
            body = claim(f"held-{thing.name}", _request([Asked(thing.kind)]))
            body["status"] = {"allocation": {"devices": {"results": [result]}}}
            yield body
    yield group(gang, problem.minimum)


def pods(problem: Problem, gang: str = "pg") -> Iterator[JsonObject]:
    for wanted in problem.pods:
        only = {"affinity": on_nodes(*wanted.nodes)} if wanted.nodes else {}
        body = member(wanted.name, gang, requests={"cpu": str(wanted.cpu)}, **only)
        body["spec"]["resourceClaims"] = [
            {"name": name, "resourceClaimName": name} for name in wanted.claims
        ]
        yield body


def on_nodes(*names: str) -> JsonObject:
    """Return the affinity of a pod that runs on these nodes only."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*names]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _slices(problem: Problem, pool: str) -> Iterator[JsonObject]:
    things = [thing for thing in problem.things if thing.pool == pool]
    cards = sorted({thing.card for thing in things} - {""})
    spec: JsonObject = {
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1 + bool(cards)}
    }
    body = gpu_slice(pool, 0, *map(_device, things), **spec)
    if pool == "network":
        del body["spec"]["nodeName"]
        body["spec"]["allNodes"] = True
    if things:
        yield body
    if cards:
        counters = [{"name": card, "counters": {"parts": {"value": "2"}}} for card in cards]
        cards_only = gpu_slice(pool, 0, {}, **spec, sharedCounters=counters)
        del cards_only["spec"]["devices"]
        cards_only["metadata"]["name"] = f"{pool}-cards"
        yield cards_only


def _device(thing: Thing) -> JsonObject:
    body: JsonObject = {
        "name": thing.name,
        "attributes": {"kind": {"string": thing.kind}},
        "capacity": {"memory": {"value": str(MEMORY)}},
    }
    if thing.kind == SHARE:
        body["allowMultipleAllocations"] = True
    if thing.card:
        counters = {"parts": {"value": str(thing.parts)}}
        body["consumesCounters"] = [{"counterSet": thing.card, "counters": counters}]
    return body


def _request(alternatives: list[Asked]) -> JsonObject:
    exact = [
        {
            "deviceClassName": asked.kind,
            "count": asked.number,
            "allocationMode": "ExactCount",
            **({"capacity": {"requests": {"memory": str(asked.memory)}}} if asked.memory else {}),
        }
        for asked in alternatives
    ]
    if len(exact) == 1:
        return {"name": "gpu", "exactly": exact[0]}
    subrequests = [{"name": f"s{place}", **body} for place, body in enumerate(exact)]
    return {"name": "gpu", "firstAvailable": subrequests}


Uses = tuple[int, ...]
"""How much of each device is in use: MEMORY if it is held as a whole."""


class _Situation(NamedTuple):
    """Where some of the pods are. Equal ones leave the same to the pods that follow."""

    cpu: tuple[int, ...]
    uses: Uses
    shared: tuple[tuple[str, frozenset[int]], ...]
    """The devices of each shared claim that has some."""
    placed: int


def fits(problem: Problem) -> bool:
    """Return whether enough pods can be placed, by trying every node and device for each."""
    things = problem.things
    used = tuple([MEMORY if thing.name in problem.held else 0 for thing in things])
    situations = {_Situation(tuple(problem.cpu.values()), used, (), 0)}
    for wanted in problem.pods:
        situations |= {
            after
            for before in situations
            for place, name in enumerate(problem.cpu)
            if before.cpu[place] >= wanted.cpu and name in (wanted.nodes or problem.cpu)
            for after in _placed(problem, before, wanted, place, name)
        }
    return any(situation.placed >= problem.minimum for situation in situations)


def _placed(
    problem: Problem, before: _Situation, wanted: Wanted, place: int, name: str
) -> Iterator[_Situation]:
    cpu = list(before.cpu)
    cpu[place] -= wanted.cpu
    for uses, shared in _given(problem, before, wanted.claims, name):
        yield _Situation(tuple(cpu), uses, shared, before.placed + 1)


def _given(
    problem: Problem, before: _Situation, claims: tuple[str, ...], name: str
) -> Iterator[tuple[Uses, tuple[tuple[str, frozenset[int]], ...]]]:
    if not claims:
        yield before.uses, before.shared
        return
    first, *others = claims
    known = dict(before.shared)
    if first in known:
        if all(problem.things[index].node in (name, EVERY_NODE) for index in known[first]):
            yield from _given(problem, before, tuple(others), name)
        return
    for chosen, uses in _taken(problem, before.uses, problem.claims[first], name):
        shared = before.shared
        if first in SHARED:
            shared = tuple(sorted({**known, first: chosen}.items()))
        yield from _given(problem, before._replace(uses=uses, shared=shared), tuple(others), name)


def _taken(
    problem: Problem, uses: Uses, alternatives: list[Asked], name: str
) -> Iterator[tuple[frozenset[int], Uses]]:
    for asked in alternatives:
        visible = [
            index
            for index, thing in enumerate(problem.things)
            if thing.kind == asked.kind and thing.node in (name, EVERY_NODE)
        ]
        for chosen in itertools.combinations(visible, asked.number):
            after = list(uses)
            for index in chosen:
                after[index] += asked.memory or MEMORY
            if max(after, default=0) <= MEMORY and _cards_suffice(problem, after):
                yield frozenset(chosen), tuple(after)


def _cards_suffice(problem: Problem, uses: list[int]) -> bool:
    parts: dict[str, int] = {}
    for thing, used in zip(problem.things, uses, strict=True):
        if used and thing.card:
            parts[thing.card] = parts.get(thing.card, 0) + thing.parts
    return all(number <= 2 for number in parts.values())
