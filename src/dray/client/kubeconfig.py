"""Kubeconfig files, and the connection of a program that runs in a pod.

Precedence as kubectl: an explicit path, `$KUBECONFIG` (several files, the first that sets a value
wins), `~/.kube/config`, then the service account of the pod.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dray import durable_files

NAME = "dray"
"""Name of the cluster, the user and the context that dray writes."""
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used; the text names the file and the entry."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """Address, authority and credentials of a cluster. Certificates are PEM bytes."""

    server: str
    context: str = ""
    namespace: str = "default"
    certificate_authority: bytes = b""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    client_certificate: bytes = b""
    client_key: bytes = b""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec_plugin: ExecPlugin | None = None


def load(
    path: str | os.PathLike[str] | None = None, *, context: str | None = None
) -> ClusterConnection:
    """Return the connection of `context`, by default of the current one."""
    files = _files(path)
    if not files:
        return in_cluster()
    merged = _merge(files)
    name = context or merged["current-context"]
    if not name:
        raise KubeconfigError(
            f"{files[0]}: no current-context; name one with --context "
            f"(there are: {', '.join(sorted(merged['contexts'])) or 'none'})"
        )
    chosen = _entry(merged, "contexts", name, files)
    cluster = _entry(merged, "clusters", chosen.get("cluster", ""), files)
    user = merged["users"].get(chosen.get("user", ""), {})
    return _connection(name, chosen, cluster, user, files)


def contexts(path: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the names of the contexts, as `load` accepts them."""
    return sorted(_merge(_files(path))["contexts"])


def in_cluster() -> ClusterConnection:
    """Return the connection of the service account of this pod."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (SERVICE_ACCOUNT / "token").exists():
        raise KubeconfigError(
            "no kubeconfig: $KUBECONFIG is not set, ~/.kube/config does not exist and this is not "
            "a pod. Give one with --kubeconfig."
        )
    if ":" in host:
        host = f"[{host}]"
    return ClusterConnection(
        server=f"https://{host}:{port}",
        namespace=(SERVICE_ACCOUNT / "namespace").read_text("utf-8").strip(),
        certificate_authority=(SERVICE_ACCOUNT / "ca.crt").read_bytes(),
        token_file=str(SERVICE_ACCOUNT / "token"),
    )


def write(path: Path, connection: ClusterConnection) -> None:
    """Write a kubeconfig with one context, readable by its owner only."""
    _save(path, _with_context({}, connection))


def merge(connection: ClusterConnection, path: Path | None = None) -> Path:
    """Add a context to the user's own kubeconfig and make it the current one. Returns the file.

    Everything else in the file stays, except what an earlier merge has put there.
    """
    listed = [item for item in os.environ.get("KUBECONFIG", "").split(os.pathsep) if item]
    chosen = path or Path(listed[0] if listed else Path.home() / ".kube" / "config")
    chosen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = _read(chosen) if chosen.exists() and chosen.stat().st_size else {}
    _save(chosen, _with_context(document, connection))
    return chosen


def _with_context(document: dict[str, Any], connection: ClusterConnection) -> dict[str, Any]:
    """Return the document with the entries of a connection; they replace those of their name."""
    credentials: dict[str, Any] = {}
    if connection.client_certificate:
        credentials["client-certificate-data"] = _encode(connection.client_certificate)
        credentials["client-key-data"] = _encode(connection.client_key)
    if connection.token:
        credentials["token"] = connection.token
    cluster = {
        "server": connection.server,
        "certificate-authority-data": _encode(connection.certificate_authority),
    }
    context = {"cluster": NAME, "user": NAME, "namespace": connection.namespace}
    changed = {"apiVersion": "v1", "kind": "Config", **document, "current-context": NAME}
    for section, item, value in (
        ("clusters", "cluster", cluster),
        ("users", "user", credentials),
        ("contexts", "context", context),
    ):
        others = [entry for entry in document.get(section) or () if entry.get("name") != NAME]
        changed[section] = [*others, {"name": NAME, item: value}]
    return changed


def _save(path: Path, document: dict[str, Any]) -> None:
    """Replace the file; a link to it stays a link."""
    content = yaml.safe_dump(document, sort_keys=False)
    durable_files.replace_file(path.resolve(), content.encode())


def _files(path: str | os.PathLike[str] | None) -> list[Path]:
    if path is not None:
        return [Path(path)]
    listed = [Path(item) for item in os.environ.get("KUBECONFIG", "").split(os.pathsep) if item]
    if listed:
        return [item for item in listed if item.exists()] or listed[:1]
    default = Path.home() / ".kube" / "config"
    return [default] if default.exists() else []


def _merge(files: Sequence[Path]) -> dict[str, Any]:
    """Merge entries by name; the first file that has an entry wins."""
    merged: dict[str, Any] = {"current-context": "", "clusters": {}, "users": {}, "contexts": {}}
    for path in files:
        document = _read(path)
        merged["current-context"] = merged["current-context"] or document.get("current-context", "")
        for section, item in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in document.get(section) or ():
                value = dict(entry.get(item) or {}, **{"@directory": str(path.parent)})
                merged[section].setdefault(entry["name"], value)
    return merged


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text("utf-8"), _Loader)
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"{path}: is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is not a kubeconfig")
    return document


def _entry(
    merged: Mapping[str, Any], section: str, name: str, files: Sequence[Path]
) -> dict[str, Any]:
    entry = merged[section].get(name)
    if entry is None:
        existing = ", ".join(sorted(merged[section])) or "none"
        where = ", ".join(map(str, files))
        raise KubeconfigError(
            f"{where}: {section[:-1]} {name!r} does not exist (there are: {existing})"
        )
    existing_entry: dict[str, Any] = entry
    return existing_entry


def _connection(
    name: str,
    context: Mapping[str, Any],
    cluster: Mapping[str, Any],
    user: Mapping[str, Any],
    files: Sequence[Path],
) -> ClusterConnection:
    server = str(cluster.get("server", "")).rstrip("/")
    if not server:
        raise KubeconfigError(f"{files[0]}: the cluster of context {name!r} has no server")
    return ClusterConnection(
        server=server,
        context=name,
        namespace=context.get("namespace") or "default",
        certificate_authority=_bytes(cluster, "certificate-authority"),
        tls_server_name=cluster.get("tls-server-name", ""),
        insecure_skip_tls_verify=bool(cluster.get("insecure-skip-tls-verify")),
        client_certificate=_bytes(user, "client-certificate"),
        client_key=_bytes(user, "client-key"),
        token=user.get("token", ""),
        token_file=_path(user, user.get("tokenFile", "")),
        username=user.get("username", ""),
        password=user.get("password", ""),
        exec_plugin=_exec_plugin(user.get("exec")),
    )


def _exec_plugin(entry: Mapping[str, Any] | None) -> ExecPlugin | None:
    if not entry:
        return None
    return ExecPlugin(
        command=entry["command"],
        arguments=tuple(entry.get("args") or ()),
        environment={item["name"]: item["value"] for item in entry.get("env") or ()},
        api_version=entry.get("apiVersion", "client.authentication.k8s.io/v1"),
        provide_cluster_info=bool(entry.get("provideClusterInfo")),
    )


def _bytes(entry: Mapping[str, Any], field_name: str) -> bytes:
    """Return the decoded `X-data`, or else the content of the file that `X` names."""
    if data := entry.get(f"{field_name}-data"):
        return base64.b64decode(data)
    if path := entry.get(field_name):
        return Path(_path(entry, path)).read_bytes()
    return b""


def _path(entry: Mapping[str, Any], path: str) -> str:
    """Return a path of a kubeconfig; a relative one is relative to that file."""
    return str(Path(entry["@directory"]) / path) if path else ""


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
