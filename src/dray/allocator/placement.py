"""Which node: remembers each node's answer to a question until that node changes.

The pods of one Deployment ask the same question, so answers are kept per signature. A no stands until
the node is loosened (`fleet`): taking devices never makes room. A yes stands as long as the node's
inventory and what claims hold of it stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from dray.allocator import problems, proofs, requests, results, search, verdicts
from dray.allocator.fleet import EVERY_NODE, Fleet, NodeEntry
from dray.allocator.inventory import Inventory
from dray.allocator.policies import Order
from dray.allocator.problems import Problem
from dray.allocator.requests import Question, Signature
from dray.allocator.usage import Holdings
from dray.allocator.verdicts import Failure, Verdict
from dray.api.claims import AllocationResult, ResourceClaim
from dray.api.names import PoolId
from dray.api.nodes import Node

_SIGNATURES_LIMIT = 4096
_PROBLEMS_LIMIT = 4096
_ANSWERS_LIMIT = 1 << 17


class Refused(NamedTuple):
    """The claims do not fit on a node."""

    reason: Verdict
    failure: Failure | None = None
    """What upstream says where it gives up on a node with an error."""


class Fit(NamedTuple):
    """The claims fit on a node: one allocation for each, to be written or dropped by the caller."""

    node: str
    allocations: Sequence[AllocationResult]


Answer = Fit | Refused


class _Remembered(NamedTuple):
    """An answer and the state of the node that it was given for."""

    inventory: Inventory
    version: int
    answer: Answer


class _Record:
    """What is known about one question."""

    __slots__ = ("answers", "cursor", "open", "problems", "questions", "skips_full_nodes")

    def __init__(self, questions: Sequence[Question], fleet: Fleet, skips_full_nodes: bool) -> None:
        self.questions = questions
        self.skips_full_nodes = skips_full_nodes
        """A node without a free device can only say no."""
        self.open = fleet.present
        """The nodes that have not said no since they were last loosened."""
        self.cursor = fleet.loosened.end()
        self.problems: dict[int, Problem] = {}
        self.answers: dict[int, _Remembered] = {}

    def catch_up(self, fleet: Fleet) -> None:
        end = fleet.loosened.end()
        if self.cursor != end:
            changed = fleet.loosened.since(self.cursor)
            self.open = fleet.present if changed == EVERY_NODE else self.open | changed
            self.cursor = end


class Placement:
    """Answers questions about one fleet."""

    def __init__(
        self,
        fleet: Fleet,
        *,
        new_share_id: Callable[[], str],
        order: Order | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._fleet = fleet
        self._new_share_id = new_share_id
        self._order = order
        self._should_stop = should_stop
        self._epoch = fleet.epoch
        self._records: dict[Signature, _Record] = {}
        self._problems = 0
        self._answers = 0

    def ask(self, claims: Sequence[ResourceClaim], node: str) -> Answer:
        """Whether the claims fit on a node; raises Failure if they cannot be allocated at all."""
        record = self._record(claims)
        entry = self._fleet.nodes[node]
        inventory = self._fleet.inventory(entry)
        known = record.answers.get(entry.index)
        if known and known.inventory is inventory and known.version == inventory.version:
            return known.answer
        answer = self._solve(self._problem(record, entry, inventory))
        if self._answers >= _ANSWERS_LIMIT:
            self._forget_answers()
        record.answers[entry.index] = _Remembered(inventory, inventory.version, answer)
        self._answers += 1
        return answer

    def first_fit(self, claims: Sequence[ResourceClaim], start: int = 0) -> Answer | None:
        """The first node on which the claims fit, in order from the `start`-th node on.

        Where there is none, the last refusal, or None if no node had to be asked. Raises Failure as
        soon as a node shows that the claims cannot be allocated at all.
        """
        record = self._record(claims)
        record.catch_up(self._fleet)
        answer: Answer | None = None
        for entry in self._candidates(record, start):
            answer = self._try(record, entry)
            if isinstance(answer, Fit):
                return answer
            record.open &= ~(1 << entry.index)
        return answer

    def problem(self, claims: Sequence[ResourceClaim], node: str) -> Problem:
        """The claims on a node as the checks see them, for whoever wants every verdict."""
        entry = self._fleet.nodes[node]
        return self._problem(self._record(claims), entry, self._fleet.inventory(entry))

    def _candidates(self, record: _Record, start: int) -> Iterator[NodeEntry]:
        nodes = self._fleet.present & record.open
        if record.skips_full_nodes:
            nodes &= self._fleet.roomy
        later = nodes >> start << start if start else nodes
        for rest in (later, nodes ^ later):
            while rest:
                bit = rest & -rest
                rest ^= bit
                entry = self._fleet.by_index[bit.bit_length() - 1]
                assert entry is not None, "a node that is present has an entry"
                yield entry

    def _try(self, record: _Record, entry: NodeEntry) -> Answer:
        fleet = self._fleet
        inventory = fleet.inventory(entry)
        if record.skips_full_nodes and not inventory.everything & ~inventory.taken:
            fleet.roomy &= ~(1 << entry.index)
            return Refused(verdicts.NoDevices())
        return self._solve(self._problem(record, entry, inventory))

    def _solve(self, problem: Problem) -> Answer:
        reason: Verdict | None = proofs.impossibility(problem)
        if reason is None:
            attempt = search.Search(problem, order=self._order, should_stop=self._should_stop)
            solution = attempt.run()
            if solution is not None:
                allocations = results.build(problem, solution, self._new_share_id)
                return Fit(problem.inventory.node.metadata.name, allocations)
            reason = attempt.refusal or verdicts.NoDevices()
        failure = None
        if any(pool.invalid_reason for pool in problem.inventory.pools):
            failure = Failure("invalid resource pools were encountered", on_node_only=True)
        return Refused(reason, failure)

    def _record(self, claims: Sequence[ResourceClaim]) -> _Record:
        if self._epoch != self._fleet.epoch or len(self._records) >= _SIGNATURES_LIMIT:
            self._records.clear()
            self._epoch = self._fleet.epoch
            self._problems = self._answers = 0
        key = requests.signature(claims)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = self._new_record(claims)
        return record

    def _new_record(self, claims: Sequence[ResourceClaim]) -> _Record:
        questions = [requests.parse(claim.spec.devices) for claim in claims]
        options = [
            option
            for question in questions
            for request in question.requests
            for option in request.options
        ]
        needs_free_device = bool(options) and all(
            option.count > 0 and not option.is_all and not option.admin_access for option in options
        )
        return _Record(
            questions, self._fleet, needs_free_device and self._is_valid_everywhere(questions)
        )

    def _is_valid_everywhere(self, questions: Sequence[Question]) -> bool:
        """Whether nothing is wrong with the claims that every node would show."""
        fleet = self._fleet
        nothing = Inventory(Node(), (), _no_holdings, (), fleet.features)
        try:
            problems.build(nothing, questions, fleet.classes, fleet.selectors)
        except Failure:
            return False
        return True

    def _problem(self, record: _Record, entry: NodeEntry, inventory: Inventory) -> Problem:
        problem = record.problems.get(entry.index)
        if problem is None or problem.inventory is not inventory:
            fleet = self._fleet
            problem = problems.build(inventory, record.questions, fleet.classes, fleet.selectors)
            if self._problems >= _PROBLEMS_LIMIT:
                self._forget_problems()
            record.problems[entry.index] = problem
            self._problems += 1
        return problem

    def _forget_problems(self) -> None:
        for record in self._records.values():
            record.problems.clear()
        self._problems = 0

    def _forget_answers(self) -> None:
        for record in self._records.values():
            record.answers.clear()
        self._answers = 0


def _no_holdings(pool: PoolId) -> Holdings:
    return Holdings()
