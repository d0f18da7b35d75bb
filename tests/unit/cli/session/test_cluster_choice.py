"""Which cluster commands use: options, $KUBECONFIG, a running `dray up`, ~/.kube/config."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.http_messages import Request, Response
from dray.cli.session import cluster_choice, up_instance
from dray.cli.session.up_instance import UpInstance
from dray.client.kubeconfig import KubeconfigError


def write(path: Path, server: str, context: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
    }
    path.write_text(json.dumps(document), "utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "DRAY_UP_DATA", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def data(home: Path) -> Path:
    """The data directory of a `dray up` that has run."""
    directory = home / ".local/share/dray"
    write(directory / "kubeconfig", "https://up", "dray")
    return directory


@pytest.fixture
def running(data: Path) -> Iterator[Path]:
    with up_instance.locked(data):
        up_instance.write(data, UpInstance(1, url="https://up"))
        yield data


def sent(choice: cluster_choice.ClusterChoice, *requests: Request) -> None:
    class Transport:
        async def send(self, request: Request) -> Response:
            return Response(200)

    async def send_all() -> None:
        transport = choice.announcing(Transport())
        for request in requests:
            await transport.send(request)

    asyncio.run(send_all())


@pytest.mark.usefixtures("running")
def test_commands_go_to_what_is_up(home: Path) -> None:
    chosen = cluster_choice.choose("", "")
    assert (chosen.connection.server, chosen.notice) == ("https://up", "")
    assert cluster_choice.choose("", "dray").connection.server == "https://up"


@pytest.mark.usefixtures("running")
def test_what_the_user_names_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".kube/config", "https://prod", "prod")
    other = write(home / "other", "https://other")
    assert cluster_choice.choose("", "prod").connection.server == "https://prod"
    assert cluster_choice.choose(str(other), "").connection.server == "https://other"
    monkeypatch.setenv("KUBECONFIG", str(other))
    chosen = cluster_choice.choose("", "")
    assert (chosen.connection.server, chosen.notice) == ("https://other", "")


@pytest.mark.usefixtures("running")
def test_in_doubt_a_command_that_writes_says_where_once(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / ".kube/config", "https://prod", "prod")
    chosen = cluster_choice.choose("", "")
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    sent(chosen, Request("GET", "/api/v1/pods"), Request("POST", review))
    assert capsys.readouterr().err == ""
    sent(chosen, Request("DELETE", "/api/v1/x"), Request("POST", "/api/v1/y"))
    assert capsys.readouterr().err == (
        f"Using the cluster of `dray up` at https://up, not {home}/.kube/config. "
        "Choose another with --kubeconfig or --context.\n"
    )
    sent(chosen, Request("GET", "/api/v1/exec", headers={"upgrade": "websocket"}))
    assert "https://up" in capsys.readouterr().err


@pytest.mark.usefixtures("running")
def test_the_same_cluster_in_both_is_no_doubt(home: Path) -> None:
    write(home / ".kube/config", "https://up", "dray")
    assert cluster_choice.choose("", "").notice == ""


@pytest.mark.usefixtures("data")
def test_in_doubt_it_says_that_nothing_is_up(home: Path) -> None:
    write(home / ".kube/config", "https://prod", "prod")
    chosen = cluster_choice.choose("", "")
    assert chosen.connection.server == "https://prod"
    assert "Using https://prod (context prod" in chosen.notice
    assert chosen.notice.endswith("`dray up` does not run.")


def test_without_dray_it_is_as_with_kubectl(home: Path) -> None:
    write(home / ".kube/config", "https://prod", "prod")
    assert cluster_choice.choose("", "").notice == ""


@pytest.mark.usefixtures("home")
def test_no_cluster_at_all() -> None:
    with pytest.raises(KubeconfigError, match="Or start a cluster: dray up"):
        cluster_choice.choose("", "")


def test_another_data_directory_from_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = home / "lab"
    write(directory / "kubeconfig", "https://lab", "dray")
    monkeypatch.setenv("DRAY_UP_DATA", str(directory))
    with up_instance.locked(directory):
        assert cluster_choice._running_kubeconfig() is None  # still starting
        up_instance.write(directory, UpInstance(1, url="https://lab"))
        assert cluster_choice.choose("", "").connection.server == "https://lab"
