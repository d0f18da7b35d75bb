"""`dray exporter` as a process: TLS, tokens, what it refuses, and a clean end."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dray.apiserver.access.certificates import Authority
from tests import waiting
from tests.unit.cli.conftest import DRAY, Cluster, run

WEB_CONFIG = """\
tls_server_config:
  cert_file: tls.crt
  key_file: tls.key
bearer_token_hashes:
  prometheus: {digest}
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.load_or_create(tmp_path / "authority")


@pytest.fixture
def web_config(tmp_path: Path, authority: Authority) -> Path:
    pair = authority.server_pair(("127.0.0.1",))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    path = tmp_path / "web.yaml"
    path.write_text(WEB_CONFIG.format(digest=hashlib.sha256(b"secret").hexdigest()), "utf-8")
    return path


def test_metrics_are_served_over_tls_to_those_with_a_token(
    cluster: Cluster, web_config: Path, authority: Authority
) -> None:
    context = ssl.create_default_context(cadata=authority.certificate.decode())

    def status(url: str, token: str = "") -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, context=context) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code

    options = ("--listen", "127.0.0.1:0", "--web-config", str(web_config))
    command = [str(DRAY), "exporter", "--kubeconfig", str(cluster.kubeconfig), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            assert url.startswith("https://127.0.0.1:")
            ready = url.replace("/metrics", "/readyz")
            waiting.block_until(lambda: status(ready) == 200)
            assert [status(url), status(url, "wrong"), status(url, "secret")] == [401, 401, 200]
            assert status(url.replace("/metrics", "/healthz")) == 200
        finally:
            process.terminate()
    assert process.returncode == 0


def test_a_wrong_web_configuration_is_refused_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text("rate_limit:\n  burst: 1\n", "utf-8")
    result = run("exporter", "--listen", "127.0.0.1:0", "--web-config", str(path))
    assert result.exit_code == 2
    assert f"--web-config: {path}, line 1: there is no field rate_limit" in result.stderr


def test_an_address_is_a_host_and_a_port() -> None:
    result = run("exporter", "--listen", "9410")
    assert result.exit_code == 2
    assert "--listen 9410: write HOST:PORT" in result.stderr
