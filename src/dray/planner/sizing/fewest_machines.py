"""The fewest machines with which every submitted pod gets a node.

Up to `PROVED_MACHINES`, all combinations of types are looked at in the order of their size, so the
first with which everything fits is a minimum. None is left out because another one failed: more
machines may be worse. Above that size, the answer is a combination of which no single machine can
be taken away; it is a minimum too if the combinations in between are few enough to look at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dray.api.types.nodes import Node
from dray.planner.cluster_model import ClusterModel
from dray.planner.placement.place import PlannedPod
from dray.planner.sizing.lower_bound import LowerBound
from dray.planner.sizing.machine_types import MachineType
from dray.planner.sizing.trials import Counts, Submit, Trials, has_room

PROVED_MACHINES = 8
"""The largest number of machines that is proved to be the smallest possible."""

_COMBINATIONS_LIMIT = 10_000
"""The most combinations that are compared with the bound for a proof of more machines."""
_DECISIONS_LIMIT = 20_000
"""The most pods and nodes, in all trials together, for such a proof."""


class Waiting(NamedTuple):
    """Pods that get no node, or only one that they take from others."""

    pods: Sequence[PlannedPod]
    nodes: int
    """The number of nodes in the cluster that was tried."""


class OneLess(NamedTuple):
    """The pods that do not fit with one machine less."""

    type: MachineType
    """The type of the machine that is not there."""
    waiting: Waiting


class Sizing(NamedTuple):
    """The machines that are needed, or why none help."""

    types: Sequence[MachineType]
    counts: Counts | None
    """How many machines of each type are needed; None if no number was found."""
    is_proved: bool
    """Whether fewer are impossible; without counts, whether every number is."""
    pods: Sequence[PlannedPod] = ()
    """All pods that have to fit, with the decisions about them with these machines."""
    one_less: Sequence[OneLess] = ()
    """For each type that is needed."""
    waiting: Waiting = Waiting((), 0)
    """Without counts: pods that no machine helps, or that wait with the most machines tried."""
    most: int = 0
    """Without counts and proof: how many machines of each type were tried together."""

    @property
    def machines(self) -> int:
        return sum(self.counts or ())

    def pods_on(self, type_: MachineType) -> list[PlannedPod]:
        """Return the pods on new machines of a type."""
        count = self.counts[self.types.index(type_)] if self.counts else 0
        names = {item.metadata.name for item in type_.make(count) if isinstance(item, Node)}
        return [planned for planned in self.pods if planned.node in names]


def fewest_machines(
    cluster: ClusterModel,
    submit: Submit,
    types: Sequence[MachineType],
    *,
    policy: str | None = None,
) -> Sizing:
    """Return how many machines of which types make everything fit.

    Of equally few machines, those win that have more of the types that come first. `submit` is
    asked for each number of machines; the cluster has the scheduler's policy `policy`.
    """
    trials = Trials(cluster, submit, types, policy)
    nothing = (0,) * len(types)
    if trials.fits(nothing):
        return _answer(trials, nothing, is_proved=True)
    search = _Search(trials)
    single_machines = (1,) * len(types)
    if hopeless := search.bound.hopeless():
        waiting = Waiting(hopeless, len(trials.cluster(single_machines).of(Node)))
        return Sizing(types, None, is_proved=True, waiting=waiting)
    if not any(search.bound.useful):
        return Sizing(types, None, is_proved=True, waiting=_waiting(trials, single_machines))
    if (counts := search.minimum()) is not None:
        return _answer(trials, counts, is_proved=True)
    if (counts := search.irreducible()) is not None:
        counts, is_proved = search.improved(counts)
        return _answer(trials, counts, is_proved=is_proved)
    waiting = _waiting(trials, search.of_every_type(search.most))
    return Sizing(types, None, is_proved=False, waiting=waiting, most=search.most)


def _answer(trials: Trials, counts: Counts, *, is_proved: bool) -> Sizing:
    one_less = [
        OneLess(type_, _waiting(trials, _changed(counts, number, count - 1)))
        for number, (type_, count) in enumerate(zip(trials.types, counts, strict=True))
        if count
    ]
    return Sizing(trials.types, counts, is_proved, trials.plan(counts).pods, one_less)


def _waiting(trials: Trials, counts: Counts) -> Waiting:
    plan = trials.plan(counts)
    waiting = [planned for planned in plan.pods if not has_room(planned)]
    return Waiting(waiting, len(plan.state.nodes))


class _Search:
    """Looks for machines with which everything fits."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        submission = trials.submission((0,) * len(trials.types))
        self._nodes = len(submission.cluster.of(Node))
        self.bound = LowerBound(submission, trials.types)
        self.most = len(submission.pods)
        """Machines of each type that are enough for every pod to have one for itself."""

    def minimum(self) -> Counts | None:
        """Return the fewest machines up to the limit; None if these are not enough."""
        for size in range(1, PROVED_MACHINES + 1):
            for counts in _combinations(size, self.bound.useful):
                if self._fits(counts):
                    return counts
        return None

    def irreducible(self) -> Counts | None:
        """Return many machines of which none can be taken away; None if none were found."""
        found = [self._reduced(counts, order) for counts, order in self._starts()]
        # As among minimums: the fewest, then most of the first types.
        return min(
            found, key=lambda counts: (sum(counts), [-count for count in counts]), default=None
        )

    def improved(self, counts: Counts) -> tuple[Counts, bool]:
        """Return the fewest machines and True, or these again if that would take too long."""
        candidates = self._fewer_than(sum(counts))
        if candidates is None:
            return counts, False
        return next((fewer for fewer in candidates if self._trials.fits(fewer)), counts), True

    def _fewer_than(self, machines: int) -> list[Counts] | None:
        """Return the combinations between the limit and this that may suffice; None for many."""
        sizes = range(PROVED_MACHINES + 1, machines)
        combinations = (
            counts for size in sizes for counts in _combinations(size, self.bound.useful)
        )
        looked_at = list(itertools.islice(combinations, _COMBINATIONS_LIMIT + 1))
        left = [counts for counts in looked_at if not self.bound.excludes(counts)]
        decisions = len(left) * (self.most + self._nodes + machines)
        if len(looked_at) > _COMBINATIONS_LIMIT or decisions > _DECISIONS_LIMIT:
            return None
        return left

    def of_every_type(self, number: int) -> Counts:
        """Return the same number of every type that makes a difference."""
        return tuple(number if useful else 0 for useful in self.bound.useful)

    def _fits(self, counts: Counts) -> bool:
        return not self.bound.excludes(counts) and self._trials.fits(counts)

    def _starts(self) -> Iterator[tuple[Counts, Sequence[int]]]:
        """Yield machines that suffice: of one type, and of all of them.

        With each comes the order in which types are taken away.
        """
        useful = [number for number, is_useful in enumerate(self.bound.useful) if is_useful]
        nothing = self.of_every_type(0)
        for number in useful:
            for size in self._sizes():
                if self._fits(counts := _changed(nothing, number, size)):
                    yield counts, [number]
                    break
        for size in self._sizes() if len(useful) > 1 else ():
            if self._fits(counts := self.of_every_type(size)):
                for last in useful:
                    yield counts, [*(number for number in useful if number != last), last]
                break

    def _sizes(self) -> Iterator[int]:
        size = PROVED_MACHINES
        while size < self.most:
            yield size
            size *= 2
        yield self.most

    def _reduced(self, counts: Counts, order: Sequence[int]) -> Counts:
        """Return machines of which none can be taken away, starting from some that suffice."""
        for number in order:
            counts = self._with_fewer(counts, number)
        while smaller := self._with_one_less(counts):
            counts = smaller
        return counts

    def _with_fewer(self, counts: Counts, number: int) -> Counts:
        """Return a combination that suffices, with few machines of one type.

        Bisection finds it fast, and the fewest if more are never worse. It need not be so; only
        combinations that suffice are returned, and `_with_one_less` looks at each machine then.
        """
        too_few, enough = -1, counts[number]
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self._fits(_changed(counts, number, middle)):
                enough = middle
            else:
                too_few = middle
        return _changed(counts, number, enough)

    def _with_one_less(self, counts: Counts) -> Counts | None:
        """Return what suffices with one machine less, of the last possible type."""
        for number in reversed(range(len(counts))):
            smaller = _changed(counts, number, counts[number] - 1)
            if counts[number] and self._fits(smaller):
                return smaller
        return None


def _combinations(size: int, useful: Sequence[bool]) -> Iterator[Counts]:
    """Yield all numbers of machines of each useful type with this sum; most of the first ones."""
    if not useful:
        if not size:
            yield ()
        return
    for count in range(size if useful[0] else 0, -1, -1):
        for others in _combinations(size - count, useful[1:]):
            yield (count, *others)


def _changed(counts: Counts, number: int, count: int) -> Counts:
    return (*counts[:number], count, *counts[number + 1 :])
