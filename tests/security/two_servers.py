"""Two API servers with the same keys on one etcd over TLS, and components against them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from dray.apiserver.access import certificates
from dray.apiserver.access.certificates import Authority
from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection
from dray.store.etcd_connection import Access, Tls
from tests import etcd

PREFIX = "/clusters/one"
END_SECONDS = 60.0


@dataclasses.dataclass
class Component:
    """A process of dray that can be killed and started again."""

    command: list[str]
    log: Path
    announces: bool = False
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dray", *self.command],
                stdout=subprocess.PIPE if self.announces else log,
                stderr=log,
                text=True,
            )
        if self.announces:
            assert self.process.stdout is not None
            line = self.process.stdout.readline()
            assert line.startswith(("Serving", "dray is up")), self.log.read_text()

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self.process is None:
            return 0
        with self.process as process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
            self.process = None
            return process.wait(END_SECONDS)


class Site:
    """The files of one test: keys that are shared, credentials for etcd, data directories."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etcd_authority = Authority.load_or_create(folder / "etcd-ca")
        self._write_keys()
        self.etcd = etcd.Server(folder, *self._etcd_options(), scheme="https")
        self.components: list[Component] = []

    def _write_keys(self) -> None:
        Authority.load_or_create(self.folder / "shared")
        key = certificates.key_to_pem(ec.generate_private_key(ec.SECP256R1()))
        pair = self.etcd_authority.client_pair("dray")
        for name, content in (
            ("tokens.key", key),
            ("client.crt", pair.certificate),
            ("client.key", pair.key),
        ):
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_bytes(content)

    def _etcd_options(self) -> list[str]:
        pair = self.etcd_authority.server_pair(["127.0.0.1"])
        (self.folder / "etcd.crt").write_bytes(pair.certificate)
        (self.folder / "etcd.key").write_bytes(pair.key)
        return [
            *("--cert-file", str(self.folder / "etcd.crt")),
            *("--key-file", str(self.folder / "etcd.key")),
            *("--trusted-ca-file", str(self.folder / "etcd-ca" / "ca.crt"), "--client-cert-auth"),
        ]

    @property
    def store_options(self) -> list[str]:
        return [
            *("--store", f"etcds://{self.etcd.endpoint}{PREFIX}"),
            *("--etcd-cafile", str(self.folder / "etcd-ca" / "ca.crt")),
            *("--etcd-certfile", str(self.folder / "client.crt")),
            *("--etcd-keyfile", str(self.folder / "client.key")),
        ]

    @property
    def key_options(self) -> list[str]:
        return [
            *("--ca-cert-file", str(self.folder / "shared" / "ca.crt")),
            *("--ca-key-file", str(self.folder / "shared" / "ca.key")),
            *("--service-account-signing-key-file", str(self.folder / "tokens.key")),
        ]

    @property
    def access(self) -> Access:
        """How a test reads what the servers have written."""
        client = self.folder / "client"
        tls = Tls(
            self.etcd_authority.certificate,
            client.with_suffix(".crt").read_bytes(),
            client.with_suffix(".key").read_bytes(),
        )
        return Access((self.etcd.endpoint,), tls)

    def server(self, name: str, command: str = "apiserver", *options: str) -> Component:
        """An API server that has started, with a data directory of its own."""
        return self._started(
            [
                *(command, "--data", str(self.folder / name)),
                *("--listen", f"127.0.0.1:{etcd.free_port()}"),
                *self.store_options,
                *self.key_options,
                *options,
            ],
            name,
            announces=True,
        )

    def scheduler(self, server: str) -> Component:
        """A scheduler that takes itself for the only one."""
        config = self.folder / server / "scheduler.kubeconfig"
        command = ["scheduler", "--kubeconfig", str(config), "--no-leader-elect"]
        return self._started(command, f"{server}-scheduler")

    def connection(self, server: str) -> ClusterConnection:
        return kubeconfig.load(self.folder / server / "kubeconfig")

    def _started(self, command: list[str], name: str, *, announces: bool = False) -> Component:
        component = Component(command, self.folder / f"{name}.log", announces)
        self.components.append(component)
        component.start()
        return component

    def end(self) -> None:
        for component in reversed(self.components):
            component.kill()
        self.etcd.kill()


@contextlib.contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A site whose etcd runs; everything is ended at the end."""
    etcd.require()
    made = Site(folder)
    try:
        made.etcd.start()
        yield made
    finally:
        made.end()
