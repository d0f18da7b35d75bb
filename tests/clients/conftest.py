"""The server that clients talk to, one for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.serving import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("server")).running() as running:
        yield running
