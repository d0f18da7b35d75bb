"""Kubeconfig files: what kubectl would read from them, and clear errors otherwise."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from dray.client import kubeconfig
from dray.client.kubeconfig import ClusterConnection, KubeconfigError


def write(path: Path, **fields: object) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        **fields,
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_current_context_is_used(tmp_path: Path) -> None:
    connection = kubeconfig.load(write(tmp_path / "config"))
    assert connection.server == "https://127.0.0.1:6443"
    assert connection.token == "secret"
    assert connection.namespace == "default"


def test_unknown_context_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        KubeconfigError, match=r"context 'there' does not exist \(there are: here\)"
    ):
        kubeconfig.load(write(tmp_path / "config"), context="there")


def test_missing_current_context_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="--context"):
        kubeconfig.load(write(tmp_path / "config", **{"current-context": ""}))


def test_relative_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"CA")
    cluster = {"server": "https://x", "certificate-authority": "ca.pem"}
    path = write(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    assert kubeconfig.load(path).certificate_authority == b"CA"


def test_data_wins_over_a_file(tmp_path: Path) -> None:
    user = {
        "client-certificate": "/nope",
        "client-certificate-data": base64.b64encode(b"CERT").decode(),
    }
    path = write(tmp_path / "config", users=[{"name": "u", "user": user}])
    assert kubeconfig.load(path).client_certificate == b"CERT"


def test_first_file_of_the_environment_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "first", users=[])
    second = write(tmp_path / "second", **{"current-context": "other"})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}")
    connection = kubeconfig.load()
    assert connection.context == "here"
    assert connection.token == "secret"


def test_no_file_and_no_pod_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeconfigError, match="Give one with --kubeconfig"):
        kubeconfig.load()


@pytest.mark.parametrize("content", ["[1, 2]", "{: ", "a: 'b"])
def test_what_is_no_kubeconfig_names_the_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(KubeconfigError, match=str(path)):
        kubeconfig.load(path)


def test_written_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "config"
    connection = ClusterConnection(
        "https://127.0.0.1:1",
        certificate_authority=b"CA",
        client_certificate=b"CERT",
        client_key=b"KEY",
    )
    kubeconfig.write(path, connection)
    assert path.stat().st_mode & 0o777 == 0o600
    read = kubeconfig.load(path)
    assert (read.server, read.client_certificate, read.client_key) == (
        "https://127.0.0.1:1",
        b"CERT",
        b"KEY",
    )


def test_merging_adds_one_context_and_keeps_the_rest_however_often(tmp_path: Path) -> None:
    path = write(tmp_path / "config")
    before = yaml.safe_load(Path(path).read_text())
    for server in ("https://one", "https://two"):
        assert kubeconfig.merge(ClusterConnection(server, token="t"), Path(path)) == Path(path)
    after = yaml.safe_load(Path(path).read_text())
    assert kubeconfig.load(path).server == "https://two"
    for section in ("clusters", "contexts", "users"):
        assert after[section][:-1] == before[section]
        assert after[section][-1]["name"] == kubeconfig.NAME
    fresh = tmp_path / "new" / "config"
    kubeconfig.merge(ClusterConnection("https://one"), fresh)
    assert kubeconfig.load(fresh).server == "https://one"
