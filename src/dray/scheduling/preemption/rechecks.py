"""The look before each eviction: whether the plan still holds, and who still has to go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from dray.api.types.pods import Pod
from dray.scheduling.claims.assignments import NodeAssignment
from dray.scheduling.preemption.nominations import Nomination, Nominations
from dray.scheduling.preemption.preemptor import PreemptorKey
from dray.scheduling.preemption.priorities import effective_priority
from dray.scheduling.preemption.victims import Victims, unit_key
from dray.scheduling.state import SchedulingState
from dray.scheduling.steps import Steps

Fits = Callable[[Collection[Pod]], Steps[Sequence[NodeAssignment] | None]]
"""Returns what the pods of a preemptor get without some others; None if they do not fit."""


class SearchUnfinished(Exception):
    """A search was ended by its limit: whether a plan still holds is not known."""


class Recheck:
    """Looks at a nomination as the state is now. `evicted` are the uids of pods that are leaving,
    although the state may not show it yet."""

    def __init__(
        self,
        state: SchedulingState,
        nominations: Nominations,
        victims: Victims,
        evicted: Collection[str],
        was_ended: Callable[[], bool] = lambda: False,
    ) -> None:
        self._state, self._nominations = state, nominations
        self._victims, self._evicted = victims, evicted
        self._was_ended = was_ended
        """Whether a search was ended before it was known whether the pods fit."""

    def next_victim(self, key: PreemptorKey, fits: Fits) -> Steps[Pod | None]:
        """Return a pod that still has to be evicted; None if none has to.

        Victims that can be spared by now, without what is kept for others, are left out of the
        nomination. It is dropped if the pods do not fit any more without all of them, or if that
        would exceed further budgets or evict a pod of no lower priority. Raises SearchUnfinished.
        """
        nomination = self._nominations.of(key)
        assert nomination is not None
        preemptor, leaving = nomination.preemptor, nomination.leaving
        with self._nominations.with_lower(preemptor):
            found = yield from self._placed(nomination, fits)
        if found is None:
            found = yield from self._at_the_cost_of_others(nomination, fits)
        if found is None or self._is_worse(nomination):
            self._nominations.drop(key)
            return None
        while True:
            self._nominations.revise(key, found, leaving)
            victim = self._to_evict(leaving.pods)
            if victim is None or self._is_begun(victim, leaving.pods):
                return victim
            unit = unit_key(victim, self._state)
            others = [pod for pod in leaving.pods if unit_key(pod, self._state) != unit]
            with self._nominations.with_lower(preemptor):
                found = yield from fits(others)
            if found is None:
                return victim
            leaving = leaving._replace(pods=others)

    def _at_the_cost_of_others(
        self, nomination: Nomination, fits: Fits
    ) -> Steps[Sequence[NodeAssignment] | None]:
        """Return what the pods get if less important and later ones get nothing for that."""
        preemptor = nomination.preemptor
        found = yield from self._placed(nomination, fits)
        if found is None:
            with self._nominations.before(preemptor.key):
                found = yield from self._placed(nomination, fits)
        if found is not None:
            self._nominations.displace(preemptor, found)
        return found

    def _placed(self, nomination: Nomination, fits: Fits) -> Steps[Sequence[NodeAssignment] | None]:
        """Return what the pods get without the victims. Raises SearchUnfinished.

        As long as that is not known, nothing is taken from others: they have evicted pods as well.
        """
        found = yield from fits(nomination.leaving.pods)
        if found is None and self._was_ended():
            key = nomination.preemptor.key
            raise SearchUnfinished(f"{key} was not placed in time to know whether its plan holds")
        return found

    def _is_worse(self, nomination: Nomination) -> bool:
        """Return whether budgets allow less of the plan by now, or a victim is as important.

        The priority of a pod is that of its PodGroup, which may have come later.
        """
        there = list(filter(self._is_there, nomination.leaving.pods))
        priority = nomination.preemptor.priority
        if any(effective_priority(pod, self._state) >= priority for pod in there):
            return True
        exceeded = {budget.key for budget in self._victims.violated(self._victims.of_all(there))}
        return not exceeded.issubset(nomination.violated_budgets)

    def _to_evict(self, pods: Iterable[Pod]) -> Pod | None:
        """Return the pod to evict next: one whose PodGroup has lost pods already goes first."""
        there = list(filter(self._is_there, pods))
        begun = (pod for pod in there if self._is_begun(pod, pods))
        return next(begun, there[0] if there else None)

    def _is_begun(self, victim: Pod, pods: Iterable[Pod]) -> bool:
        """Return whether pods that are evicted together with a victim were evicted."""
        unit = unit_key(victim, self._state)
        return any(
            pod.metadata.uid in self._evicted
            for pod in pods
            if unit_key(pod, self._state) == unit and pod.metadata.uid != victim.metadata.uid
        )

    def _is_there(self, victim: Pod) -> bool:
        """Return whether this very pod exists, and nobody has asked it to leave."""
        known = self._state.pods.get(victim.metadata.key)
        return (
            known is not None
            and known.metadata.uid == victim.metadata.uid
            and known.metadata.uid not in self._evicted
            and known.metadata.deletion_timestamp is None
        )
