"""The answers to `dray explain` of a cluster's own process: who gets one, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

import dray
from dray.api import errors, kinds
from dray.api.http_messages import Request, Response, User
from dray.apiserver.access.authentication import AUTHENTICATED
from dray.cluster import assembly, served_explanations
from dray.cluster.assembly import ADMIN, ClusterPlan, RunningCluster
from dray.cluster.served_explanations import ServedExplanations
from dray.drivers.simulated import fleet as fleets
from dray.explain import report
from dray.explain.report import Report, ReportForm
from dray.store import memory
from tests import waiting
from tests.unit.cli.explain.test_command import claim

NOBODY = User("somebody", frozenset({AUTHENTICATED}))
QUESTION = {
    "kind": "ResourceClaim",
    "namespace": "default",
    "name": "many",
    "form": "text",
    "version": dray.__version__,
}


@contextlib.asynccontextmanager
async def running(folder: Path, *, schedules: bool = True) -> AsyncIterator[RunningCluster]:
    """A cluster with a claim that fits nowhere."""
    plan = ClusterPlan(schedules=schedules, fleet=fleets.load("h200", nodes=2))
    async with memory.open() as store, assembly.running(store, folder, plan) as made:
        body = claim("many", count=9)
        body["metadata"]["namespace"] = "default"
        await made.client().create(kinds.RESOURCE_CLAIM, body, "default")
        yield made


async def ask(
    cluster: RunningCluster, user: User = ADMIN, method: str = "GET", **changes: str
) -> Response:
    query = tuple({**QUESTION, **changes}.items())
    return await cluster.client(user).raw(Request(method, report.PATH, query))


async def first_answer(cluster: RunningCluster) -> Report:
    """The answer, when the scheduler follows the cluster and knows the devices."""

    async def answered() -> Report | None:
        response = await ask(cluster)
        if response.status != 200:
            return None
        found = msgspec.json.decode(response.body, type=Report)
        return found if "8 on h200-0" in "".join(found.text.verdict) else None

    found: Report | None = await waiting.until_answered(answered, "an answer about both nodes")
    assert found is not None
    return found


def test_each_form_has_what_is_printed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as cluster:
            found = await first_answer(cluster)
            assert not found.is_good
            assert found.document == {}
            data = msgspec.json.decode((await ask(cluster, form=ReportForm.DATA)).body, type=Report)
            assert data.document["about"] == "claim/many"
            assert not data.text.verdict

    asyncio.run(story())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"version": "0.0.1"}, id="another version"),
        pytest.param({"kind": "Secret"}, id="another kind"),
        pytest.param({"kind": ""}, id="no kind"),
        pytest.param({"name": "absent"}, id="no such claim"),
        pytest.param({"namespace": ""}, id="no namespace"),
        pytest.param({"form": "picture"}, id="another form"),
    ],
)
def test_what_is_not_answered_is_not_found(tmp_path: Path, changes: dict[str, str]) -> None:
    async def story() -> None:
        async with running(tmp_path) as cluster:
            await first_answer(cluster)
            assert (await ask(cluster, ADMIN, "GET", **changes)).status == 404

    asyncio.run(story())


def test_only_get_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as cluster:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert (await ask(cluster, method=method)).status == 405

    asyncio.run(story())


def test_without_rights_nothing_is_said_about_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as cluster:
            await first_answer(cluster)
            for name in ("many", "absent"):
                assert (await ask(cluster, NOBODY, name=name)).status == 403

    asyncio.run(story())


def test_without_a_scheduler_there_is_no_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path, schedules=False) as cluster:
            assert (await ask(cluster)).status == 404

    asyncio.run(story())


def test_too_many_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(served_explanations, "WAITING_LIMIT", 2)
        async with running(tmp_path) as cluster:
            await first_answer(cluster)
            several = await asyncio.gather(*(ask(cluster) for _ in range(5)))
            assert sorted(each.status for each in several) == [200, 200, 429, 429, 429]
            assert (await ask(cluster)).status == 200

    asyncio.run(story())


def test_what_was_remembered_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(served_explanations, "FORGET_SECONDS", 0.01)
        async with running(tmp_path) as cluster:
            first = await first_answer(cluster)
            await asyncio.sleep(0.1)
            assert await first_answer(cluster) == first

    asyncio.run(story())


def test_a_scheduler_that_does_not_lead_gives_no_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with running(tmp_path) as cluster:
            app = cluster.opened.app
            served = ServedExplanations(app.handle, app.authorize)
            question = Request("GET", report.PATH, tuple(QUESTION.items()))
            with pytest.raises(errors.ServiceUnavailable):
                await served.answer(question, ADMIN)

    asyncio.run(story())
