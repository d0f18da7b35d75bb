"""Fairness between users: limits, queues, and turns for requests that need much time.

In the spirit of Kubernetes' API Priority and Fairness. Each user has a number of requests that are
worked on and a queue for more; so nobody waits behind the requests of another. As all requests
share one thread, the time of each step between two waits is measured too. A user whose steps are
long gets one step at a time, taken in turn with other such users, and only while no other user's
request is being worked on, or has been for a while. Many short steps are divided too (`rounds`).
"""

from __future__ import annotations

import asyncio
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from dray.api import errors
from dray.api.http_messages import User
from dray.apiserver.access.authentication import ANONYMOUS
from dray.apiserver.access.rbac import MASTERS
from dray.apiserver.serving.limits import ServerLimits, UserLimits
from dray.apiserver.serving.rounds import Rounds, RoundShare

NODES = "system:nodes"
COMPONENTS = frozenset({"system:kube-scheduler", "system:kube-controller-manager"})
SYSTEM_ACCOUNTS = "system:serviceaccounts:kube-system"

LONG_STEP_SECONDS = 0.002
"""Shorter steps need no turn: a user has few requests that are worked on at the same time."""
HEAVY_SECONDS = 0.02
"""The time of long steps, of which half is forgotten every second, that makes a user heavy."""
HEAVY_RUNNING = 2
REST_SECONDS = 0.001
MAX_REST_SECONDS = 0.02
MAX_UNSENT_BYTES = 16 * 2**20
"""A user for whom more than this waits to be read gets no further request worked on."""
TOO_MANY = "Too many requests, please try again later."

T = TypeVar("T")


class Flow:
    """The requests of one user."""

    __slots__ = (
        "_at",
        "_long_seconds",
        "is_exempt",
        "limits",
        "name",
        "round",
        "running",
        "sessions",
        "unsent_bytes",
        "waiting",
        "watches",
    )

    def __init__(self, name: str, limits: UserLimits, is_exempt: bool = False) -> None:
        self.name = name
        self.limits = limits
        self.is_exempt = is_exempt
        self.running = self.watches = self.sessions = self.unsent_bytes = 0
        self.round = RoundShare(limits.round_seconds)
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._long_seconds = 0.0
        self._at = 0.0

    def charge(self, seconds: float, now: float) -> None:
        if seconds > LONG_STEP_SECONDS:
            self._long_seconds = self._recent(now) + seconds
            self._at = now

    @property
    def was_heavy(self) -> bool:
        """Whether the user may still be heavy; without a look at the clock."""
        return self._long_seconds > HEAVY_SECONDS

    def is_heavy(self, now: float) -> bool:
        return self._long_seconds > HEAVY_SECONDS and self._recent(now) > HEAVY_SECONDS

    def _recent(self, now: float) -> float:
        return float(self._long_seconds * 0.5 ** (now - self._at))

    def has_place(self, now: float) -> bool:
        allowed = self.limits.running
        if self._long_seconds and self.is_heavy(now):
            allowed = min(allowed, HEAVY_RUNNING)
        return self.running < allowed and self.unsent_bytes <= MAX_UNSENT_BYTES

    def is_idle(self, now: float) -> bool:
        return not (
            self.running or self.waiting or self.watches or self.sessions or self.is_heavy(now)
        )


class Turns:
    """One long step at a time, with rests in which the requests of other users go on."""

    def __init__(self, others_wait: Callable[[], bool]) -> None:
        self._others_wait = others_wait
        self._queues: dict[Flow, deque[asyncio.Future[None]]] = {}
        self._is_taken = False

    async def take(self, flow: Flow) -> None:
        """Wait for a turn; `give_back` must follow."""
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(flow, deque()).append(turn)
        if not self._is_taken:
            self._is_taken = True
            self._rest(0.0)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        self._rest(0.0)

    def _rest(self, rested: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(REST_SECONDS, self._next, rested + REST_SECONDS)

    def _next(self, rested: float) -> None:
        if rested < MAX_REST_SECONDS and self._others_wait():
            self._rest(rested)
            return
        while self._queues:
            # Users in turn: the first goes to the end.
            flow, queue = next(iter(self._queues.items()))
            del self._queues[flow]
            turn = queue.popleft()
            if queue:
                self._queues[flow] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False


class Dispatcher:
    """The flows of all users who have something open."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._flows: dict[str, Flow] = {}
        self._turns = Turns(self._is_light_running)
        self._rounds = Rounds()
        self.refused = 0

    def flow_of(self, user: User) -> Flow:
        """Return the flow of the user who really asks, impersonating or not."""
        user = user.impersonator or user
        flow = self._flows.get(user.name)
        if flow is None:
            self._forget_idle()
            flow = self._flows[user.name] = self._make(user)
        return flow

    def _make(self, user: User) -> Flow:
        if user.name == ANONYMOUS.name:
            return Flow(user.name, self._limits.anonymous)
        if MASTERS in user.groups:
            return Flow(user.name, self._limits.system, is_exempt=True)
        is_system = (
            NODES in user.groups or SYSTEM_ACCOUNTS in user.groups or user.name in COMPONENTS
        )
        return Flow(user.name, self._limits.system if is_system else self._limits.ordinary)

    def _forget_idle(self) -> None:
        now = time.perf_counter()
        if len(self._flows) >= 1000:
            self._flows = {n: flow for n, flow in self._flows.items() if not flow.is_idle(now)}

    async def enter(self, flow: Flow) -> None:
        """Wait until a request of the user may be worked on; `leave` must follow. Raises 429."""
        if flow.is_exempt or (not flow.waiting and flow.has_place(time.perf_counter())):
            flow.running += 1
        else:
            await self._wait(flow)
        if not flow.is_exempt:
            try:
                await self._rounds.enter(flow.round)
            except BaseException:
                self.leave(flow)
                raise

    async def _wait(self, flow: Flow) -> None:
        if len(flow.waiting) >= flow.limits.waiting:
            raise self.refusal(TOO_MANY)
        place = asyncio.get_running_loop().create_future()
        flow.waiting.append(place)
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await place
        except BaseException as error:
            if place in flow.waiting:
                flow.waiting.remove(place)
            elif not place.cancelled():
                self.leave(flow)
            if isinstance(error, TimeoutError):
                raise self.refusal(TOO_MANY) from None
            raise

    def refusal(self, message: str) -> errors.TooManyRequests:
        self.refused += 1
        return errors.too_many_requests(message, 1)

    def leave(self, flow: Flow) -> None:
        flow.running -= 1
        self._admit(flow)

    def sent(self, flow: Flow, size: int) -> None:
        flow.unsent_bytes -= size
        self._admit(flow)

    def _admit(self, flow: Flow) -> None:
        """Give free places to waiting requests; each has its place from now on."""
        while flow.waiting and flow.has_place(time.perf_counter()):
            place = flow.waiting.popleft()
            if not place.done():
                flow.running += 1
                place.set_result(None)

    def _is_light_running(self) -> bool:
        now = time.perf_counter()
        return any(flow.running and not flow.is_heavy(now) for flow in self._flows.values())

    async def run(self, flow: Flow, work: Coroutine[Any, Any, T]) -> T:
        """Do the work of a request step by step, each in the user's turn."""
        if flow.is_exempt:
            return await work
        return await _stepped(self._turns, self._rounds, flow, work)

    async def refuse(self) -> None:
        """Wait before wrong credentials are rejected: they count as no credentials."""
        await self._rounds.enter(self.flow_of(ANONYMOUS).round)


@types.coroutine
def _stepped(
    turns: Turns, rounds: Rounds, flow: Flow, work: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    value: Any = None
    failure: BaseException | None = None
    while True:
        takes_turn = flow.was_heavy and flow.is_heavy(time.perf_counter())
        if takes_turn:
            try:
                yield from turns.take(flow).__await__()
            except BaseException as error:  # noqa: BLE001 - passed on to the work
                takes_turn, failure = False, error
        started, cpu_started = time.perf_counter(), time.thread_time()
        try:
            waits_for = work.send(value) if failure is None else work.throw(failure)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            now = time.perf_counter()
            if now - started <= LONG_STEP_SECONDS:
                rounds.charge(flow.round, now - started)
            else:
                rounds.charge(flow.round, LONG_STEP_SECONDS)
                # Not for the time of others: on a busy machine, all users would be heavy.
                flow.charge(time.thread_time() - cpu_started, now)
            if takes_turn:
                turns.give_back()
        value = failure = None
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001 - passed on to the work
            failure = error
