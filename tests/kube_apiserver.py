"""A real kube-apiserver on loopback for tests, over an etcd of its own."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests import etcd

START_SECONDS = 120.0
ADMIN = "admin"


class Server:
    """A started server: kubeconfig files for its users, whose tokens are their names."""

    def __init__(self, directory: Path, port: int) -> None:
        self._directory, self._port = directory, port

    def kubeconfig(self, user: str) -> Path:
        path = self._directory / f"{user}.kubeconfig"
        server = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": str(self._directory / "apiserver.crt"),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": server}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
            "current-context": "real",
        }
        path.write_text(json.dumps(document), "utf-8")
        return path

    def is_ready(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=context)
        try:
            connection.request("GET", "/readyz", headers={"authorization": f"Bearer {ADMIN}"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def running(directory: Path, *users: str, options: tuple[str, ...] = ()) -> Iterator[Server]:
    """A started server with an administrator and users without rights; skipped without one."""
    program = shutil.which("kube-apiserver")
    if program is None:
        pytest.skip("no kube-apiserver on PATH")
    with etcd.running(directory) as store:
        port = etcd.free_port()
        command = [
            *(program, f"--etcd-servers=http://{store.endpoint}", f"--secure-port={port}"),
            *("--bind-address=127.0.0.1", f"--cert-dir={directory}"),
            *("--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24"),
            *_accounts(directory),
            f"--token-auth-file={_tokens(directory, users)}",
            *options,
        ]
        log = directory / "kube-apiserver.log"
        with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
            try:
                server = Server(directory, port)
                deadline = time.monotonic() + START_SECONDS
                while not server.is_ready():
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"it did not start:\n{log.read_text('utf-8')[-4000:]}")
                    time.sleep(0.2)
                yield server
            finally:
                process.kill()


def _tokens(directory: Path, users: tuple[str, ...]) -> Path:
    path = directory / "tokens.csv"
    lines = [f'{ADMIN},{ADMIN},1,"system:masters"', *(f"{user},{user},{user}" for user in users)]
    path.write_text("\n".join(lines), "utf-8")
    return path


def _accounts(directory: Path) -> list[str]:
    """The options for tokens of service accounts, which no test uses."""
    key = directory / "accounts.key"
    pem = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    key.write_bytes(pem)
    return [
        "--service-account-issuer=https://tests.example",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
    ]
