"""A dashboard in which something fails that nobody has thought of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.client.api_client import Transport
from dray.ui.people import KubeconfigPeople, Person
from dray.ui.web import plain_server
from dray.ui.web.dashboard import Dashboard, DashboardSettings
from tests.ui.browser import Answer, Browser


class FailingPeople(KubeconfigPeople):
    async def of_token(self, token: str) -> Person | None:
        raise KeyError(token)


async def never() -> Any:
    raise AssertionError


def test_a_failure_is_answered_as_everything_else(caplog: pytest.LogCaptureFixture) -> None:
    transport: Transport = None  # type: ignore[assignment]
    dashboard = Dashboard(FailingPeople(transport, "ada"), never, DashboardSettings("x", "1"))

    async def story() -> Answer:
        async with plain_server.serving(dashboard, "127.0.0.1", 0) as url:
            return await asyncio.to_thread(Browser(url).post, "login", {"token": "s3cret"})

    answer = asyncio.run(story())
    assert (answer.status, answer.message) == (500, "the server failed; its log says why")
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert answer.headers["content-type"].startswith("application/json")
    assert b"s3cret" not in answer.body
    assert "POST /ui/api/login failed" in caplog.text
