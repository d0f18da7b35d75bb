"""The options that choose the store of an API server, and its credentials."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import re
import stat
import urllib.parse
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.command_errors import CommandError, WrongUsage
from dray.store import store
from dray.store.store import Store

if TYPE_CHECKING:
    from dray.store.etcd_connection import Access, Login, Tls

MEMORY = "memory"
FORMS = f"{MEMORY}, sqlite:PATH or etcds://[USER@]HOST:PORT[,HOST:PORT…][/PREFIX]"
SQLITE = "sqlite:"
ETCD, ETCD_TLS = "etcd://", "etcds://"
DEFAULT_PREFIX = "/dray"
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]+)(:[0-9]{1,5})?")
_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The store that the command line names, "" for the default, and how to log in there."""

    text: str = ""
    cafile: Path | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    password_file: Path | None = None
    allows_plaintext: bool = False

    @property
    def is_etcd(self) -> bool:
        return self.text.startswith((ETCD, ETCD_TLS))

    @property
    def is_shared(self) -> bool:
        """Whether other processes may use the store at the same time."""
        return self.is_etcd

    @property
    def files(self) -> dict[str, Path | None]:
        """Return the files of TLS by the option that names them."""
        return {
            "--etcd-cafile": self.cafile,
            "--etcd-certfile": self.certfile,
            "--etcd-keyfile": self.keyfile,
        }

    def check(self) -> None:
        """Raise WrongUsage for options that contradict each other or expose a secret."""
        given = [option for option, path in self.files.items() if path is not None]
        if self.password_file is not None:
            given.append("--etcd-password-file")
        if self.allows_plaintext:
            given.append("--etcd-insecure")
        if self.is_etcd:
            self._check_etcd(given)
        elif given:
            raise WrongUsage(f"{given[0]} is for --store {ETCD_TLS}…, and the store is another one")

    def _check_etcd(self, given: list[str]) -> None:
        parts = _split(self.text)
        if parts.password is not None:
            # Without the text: it would repeat the password.
            raise WrongUsage(
                "--store: a password on the command line can be read by every user of this "
                "computer.",
                "Write it to a file with mode 600, and name that with --etcd-password-file.",
            )
        if bool(parts.user) != (self.password_file is not None):
            raise WrongUsage(
                "--store with a user and --etcd-password-file belong together: "
                f"{ETCD_TLS}USER@HOST:PORT"
            )
        if (self.certfile is None) != (self.keyfile is None):
            raise WrongUsage("--etcd-certfile and --etcd-keyfile belong together")
        if self.text.startswith(ETCD_TLS):
            if self.allows_plaintext:
                raise WrongUsage(f"--etcd-insecure is for --store {ETCD}…, which has no TLS")
            return
        if given and given[0] in self.files:
            raise WrongUsage(f"{given[0]} needs TLS: write --store {ETCD_TLS}…")
        remote = [host for host in parts.endpoints if not _is_loopback(host)]
        if remote and not self.allows_plaintext:
            raise WrongUsage(
                f"--store {ETCD}… has no TLS, and everything in the store, Secrets too, would "
                f"cross the network to {remote[0]} in plain text.",
                f"Write {ETCD_TLS}… with --etcd-cafile; --etcd-insecure allows it anyway.",
            )


@dataclass(frozen=True, slots=True)
class _EtcdUrl:
    endpoints: tuple[str, ...]
    prefix: str
    user: str = ""
    password: str | None = None


def options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --store and the options of etcd; the command receives them as `store`."""

    @click.option("--store", default="", metavar="STORE", help=f"{FORMS}; sqlite in --data.")
    @click.option(
        "--etcd-cafile", type=_FILE, metavar="FILE", help="Certificate authority of etcd."
    )
    @click.option(
        "--etcd-certfile", type=_FILE, metavar="FILE", help="Client certificate for etcd."
    )
    @click.option("--etcd-keyfile", type=_FILE, metavar="FILE", help="Its private key.")
    @click.option(
        "--etcd-password-file", type=_FILE, metavar="FILE", help="The password of etcd's USER."
    )
    @click.option(
        "--etcd-insecure", is_flag=True, help="Allow etcd:// without TLS to another computer."
    )
    @functools.wraps(function)
    def wrapped(
        store: str,
        etcd_cafile: Path | None,
        etcd_certfile: Path | None,
        etcd_keyfile: Path | None,
        etcd_password_file: Path | None,
        etcd_insecure: bool,
        **rest: Any,
    ) -> Any:
        choice = StoreChoice(
            store, etcd_cafile, etcd_certfile, etcd_keyfile, etcd_password_file, etcd_insecure
        )
        choice.check()
        return function(store=choice, **rest)

    return wrapped


@contextlib.asynccontextmanager
async def opened(choice: StoreChoice, data: Path) -> AsyncIterator[Store]:
    """Open the chosen store, by default the file `store.db` in the data directory."""
    try:
        async with _opened(choice, data) as opened_store:
            yield opened_store
    except store.StoreUnusable as error:
        raise CommandError(f"the store cannot be opened: {error}") from error
    except store.Unavailable as error:
        raise CommandError(f"the store does not answer: {error}") from error


def _opened(choice: StoreChoice, data: Path) -> contextlib.AbstractAsyncContextManager[Store]:
    if choice.text == MEMORY:
        from dray.store import memory

        return memory.open()
    if choice.is_etcd:
        return _etcd(choice)
    from dray.store import sqlite

    return sqlite.open(sqlite_path(choice.text, data))


def sqlite_path(text: str, data: Path) -> Path:
    """Return the file of a SQLite store. Raises WrongUsage for other stores."""
    if not text:
        return data / "store.db"
    if not text.startswith(SQLITE) or text == SQLITE:
        raise WrongUsage(f"--store {text}: write {FORMS}")
    return Path(text.removeprefix(SQLITE))


def _etcd(choice: StoreChoice) -> contextlib.AbstractAsyncContextManager[Store]:
    try:
        from dray.store import etcd
    except ModuleNotFoundError as error:
        if error.name != "aetcd":
            raise
        raise CommandError(
            f"--store {ETCD}… needs the package aetcd; install it with: pip install 'dray[etcd]'"
        ) from error
    return etcd.open(access(choice), root=_split(choice.text).prefix)


def access(choice: StoreChoice) -> Access:
    """Return address and credentials of etcd. Raises WrongUsage for files that are unusable."""
    from dray.store.etcd_connection import Access

    return Access(_split(choice.text).endpoints, _tls(choice), _login(choice))


def _tls(choice: StoreChoice) -> Tls | None:
    from dray.store.etcd_connection import Tls

    if not choice.text.startswith(ETCD_TLS):
        return None
    return Tls(
        _read("--etcd-cafile", choice.cafile),
        _read("--etcd-certfile", choice.certfile),
        _read("--etcd-keyfile", choice.keyfile, is_secret=True),
    )


def _login(choice: StoreChoice) -> Login | None:
    from dray.store.etcd_connection import Login

    content = _read("--etcd-password-file", choice.password_file, is_secret=True)
    if content is None:
        return None
    password = content.decode(errors="surrogateescape").removesuffix("\n").removesuffix("\r")
    return Login(_split(choice.text).user, password)


def _read(option: str, path: Path | None, *, is_secret: bool = False) -> bytes | None:
    if path is None:
        return None
    try:
        content = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise WrongUsage(f"{option} {path}: {error.strerror}") from error
    if is_secret and mode & stat.S_IRWXO:
        raise WrongUsage(f"{option} {path}: every user can read it.", f"Run: chmod 600 {path}")
    if not content.strip():
        raise WrongUsage(f"{option} {path}: the file is empty")
    return content


def _split(text: str) -> _EtcdUrl:
    # Not by `urlsplit`: newer versions of Python take one host only, where it is an IPv6 address.
    scheme, _, rest = text.partition("://")
    place, slash, path = rest.partition("/")
    login, _, hosts = place.rpartition("@")
    endpoints = tuple(filter(None, hosts.split(",")))
    user, colon, password = map(urllib.parse.unquote, login.partition(":"))
    is_wrong = {*"?#"} & {*rest} or not all(_HOST.fullmatch(found) for found in endpoints)
    if not endpoints or is_wrong:
        shown = text if not colon else f"{scheme}://…"
        raise WrongUsage(f"--store {shown}: write {FORMS}")
    prefix = f"{slash}{path}".rstrip("/") or DEFAULT_PREFIX
    return _EtcdUrl(endpoints, prefix, user, password if colon else None)


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.rpartition(":")[0].strip("[]") or endpoint
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
