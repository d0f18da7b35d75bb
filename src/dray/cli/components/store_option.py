"""The option that chooses the store of an API server."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path

from dray.cli.command_errors import CommandError, WrongUsage
from dray.store import store
from dray.store.store import Store

FORMS = "memory, sqlite:PATH or etcd://HOST:PORT[,HOST:PORT…][/PREFIX]"
SQLITE = "sqlite:"
ETCD = "etcd://"
DEFAULT_PREFIX = "/dray"


@contextlib.asynccontextmanager
async def opened(text: str, data: Path) -> AsyncIterator[Store]:
    """Open the store that `text` names, by default the file `store.db` in the data directory."""
    try:
        async with _opened(text, data) as opened_store:
            yield opened_store
    except store.StoreUnusable as error:
        raise CommandError(f"the store cannot be opened: {error}") from error
    except store.Unavailable as error:
        raise CommandError(f"the store does not answer: {error}") from error


def _opened(text: str, data: Path) -> contextlib.AbstractAsyncContextManager[Store]:
    if text == "memory":
        from dray.store import memory

        return memory.open()
    if text.startswith(ETCD):
        return _etcd(text)
    from dray.store import sqlite

    return sqlite.open(sqlite_path(text, data))


def sqlite_path(text: str, data: Path) -> Path:
    """Return the file of a SQLite store. Raises WrongUsage for other stores."""
    if not text:
        return data / "store.db"
    if not text.startswith(SQLITE) or text == SQLITE:
        raise WrongUsage(f"--store {text}: write {FORMS}")
    return Path(text.removeprefix(SQLITE))


def _etcd(text: str) -> contextlib.AbstractAsyncContextManager[Store]:
    try:
        from dray.store import etcd
        from dray.store.etcd_connection import Access, Login
    except ModuleNotFoundError as error:
        if error.name != "aetcd":
            raise
        raise CommandError(
            f"--store {ETCD}… needs the package aetcd; install it with: pip install 'dray[etcd]'"
        ) from error

    parts = urllib.parse.urlsplit(text)
    login, _, hosts = parts.netloc.rpartition("@")
    endpoints = tuple(filter(None, hosts.split(",")))
    if not endpoints:
        raise WrongUsage(f"--store {text}: write {FORMS}")
    user, _, password = map(urllib.parse.unquote, login.partition(":"))
    access = Access(endpoints, login=Login(user, password) if login else None)
    return etcd.open(access, root=parts.path.rstrip("/") or DEFAULT_PREFIX)
