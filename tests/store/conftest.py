"""Runs `async def` tests, and each test of the common suite on every implementation."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from dray.store import etcd as etcd_store
from dray.store import etcd_connection, memory, sqlite, store, watch
from tests import etcd, loop

Opener = Callable[..., AbstractAsyncContextManager[store.Store]]

_roots = (f"/test-{number}" for number in itertools.count())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    loop.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[etcd.Server]:
    with etcd.running(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens each implementation in turn."""
    return memory.open if request.param == "memory" else _opener(request, tmp_path)


@pytest.fixture(params=["sqlite", "etcd"])
def open_lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens each implementation that lasts; opening again within a test finds what was stored."""
    return _opener(request, tmp_path)


def _opener(request: pytest.FixtureRequest, directory: Path) -> Opener:
    if request.param == "sqlite":
        return _sqlite_opener(directory / "store.db")
    return _etcd_opener(request.getfixturevalue("etcd_server"))


def _sqlite_opener(path: Path) -> Opener:
    def opener(limits: watch.WatchLimits = watch.DEFAULT_LIMITS) -> AbstractAsyncContextManager:
        return sqlite.open(path, limits=limits)

    return opener


def _etcd_opener(server: etcd.Server) -> Opener:
    access, root = etcd_connection.Access((server.endpoint,)), next(_roots)

    def opener(limits: watch.WatchLimits = watch.DEFAULT_LIMITS) -> AbstractAsyncContextManager:
        return etcd_store.open(access, root=root, limits=limits)

    return opener
