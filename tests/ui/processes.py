"""A `dray up` with its dashboard as a process, and objects for it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any, Final

from dray.api import kinds
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from tests.ui.browser import Browser
from tests.unit.cli.conftest import DRAY, Cluster, as_list

UP: Final = (
    *(str(DRAY), "up", "--runtime", "none", "--store", "memory"),
    *("--listen", "127.0.0.1:0", "--fleet", "quickstart"),
)


class Up:
    """A running `dray up`: its link, its kubeconfig, and commands against it."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [*UP, "--data", str(data), *options], stdout=subprocess.PIPE, text=True
        )
        lines = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C ends it"):
                break
        self.output = "".join(lines)
        self.kubeconfig = data / "kubeconfig"
        self.cluster = Cluster(self.kubeconfig)

    @property
    def api_url(self) -> str:
        return kubeconfig.load(self.kubeconfig).server

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)

    def create(self, *documents: dict[str, Any]) -> None:
        done = self.cluster.dray("apply", "-f", "-", input=as_list(list(documents)))
        assert done.exit_code == 0, done.output

    def delete(self, *words: str) -> None:
        done = self.cluster.dray("delete", *words)
        assert done.exit_code == 0, done.output

    def secure(self, *, with_certificate: bool = False) -> Browser:
        """Return a browser at the HTTPS port of the API server."""
        connection = kubeconfig.load(self.kubeconfig)
        context = ssl.create_default_context(cadata=connection.certificate_authority.decode())
        if with_certificate:
            pair = self.data / "pair.pem"
            pair.write_bytes(connection.client_certificate + b"\n" + connection.client_key)
            context.load_cert_chain(pair)
        return Browser(self.api_url, context)

    def token(self, name: str, namespace: str = "default") -> str:
        """Return a token of a service account."""

        async def ask() -> str:
            async with RestTransport(kubeconfig.load(self.kubeconfig)) as transport:
                body = {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 3600},
                }
                accounts = kinds.served("", "ServiceAccount")
                answer = await Client(transport).create_subresource(
                    accounts, name, "token", body, namespace
                )
                return str(answer["status"]["token"])

        return asyncio.run(ask())


def service_account(name: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }


def role(name: str, namespace: str, *rules: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return a role for a service account of the same name; without a namespace, for all.

    A rule has verbs, a group and resources, each separated by blanks.
    """
    kind = "Role" if namespace else "ClusterRole"
    where = {"namespace": namespace} if namespace else {}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    described = [
        {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
        for verbs, group, resources in rules
    ]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    return [
        {**version, "kind": kind, "metadata": {"name": name, **where}, "rules": described},
        {
            **version,
            "kind": f"{kind}Binding",
            "metadata": {"name": name, **where},
            "subjects": [subject],
            "roleRef": reference,
        },
    ]


READ: Final = "get list watch"
DRA: Final = "resource.k8s.io"


def claim(name: str, namespace: str = "default", **exactly: Any) -> dict[str, Any]:
    wanted = {"deviceClassName": "gpu.nvidia.com", **exactly}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}},
    }


def pod(name: str, claim_name: str, namespace: str = "default") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "containers": [
                {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
    }


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
