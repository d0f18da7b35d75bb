"""A real Prometheus scrapes a running exporter, loads the rules and evaluates them."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from tools import make_dashboard

from dray.apiserver.access.certificates import Authority
from dray.exporter.metric_table import METRICS
from dray.testing import Cluster
from tests.monitoring.expressions import SERIES
from tests.monitoring.promtool import ALERTS, FOLDER, program, promtool
from tests.pages import ROOT
from tests.waiting import block_until

DRAY = Path(sys.executable).parent / "dray"
END_SECONDS = 30.0
PASSWORD = "a password of the test"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("prometheus")]


class Prometheus:
    """A server that scrapes one exporter each second."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer; None while there is none."""
        url = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        data = self.get("query", query=expression)
        return data["result"] if data else []

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def alerts(self) -> dict[str, str]:
        """The state of each alert that is pending or firing."""
        return {
            alert["labels"]["alertname"]: alert["state"] for alert in self.get("alerts")["alerts"]
        }


@contextlib.contextmanager
def running(command: list[str], log: Path, **options: Any) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, **options)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(END_SECONDS)


def write_web_config(folder: Path) -> Path:
    """TLS and a user, in the format that all exporters of Prometheus have."""
    authority = Authority.load_or_create(folder)
    pair = authority.server_pair(["127.0.0.1"])
    (folder / "server.crt").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)
    (folder / "authority.crt").write_bytes(authority.certificate)
    password = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    config = {
        "tls_server_config": {"cert_file": "server.crt", "key_file": "server.key"},
        "basic_auth_users": {"prometheus": password},
    }
    (folder / "web.yml").write_text(yaml.safe_dump(config), "utf-8")
    return folder / "web.yml"


@contextlib.contextmanager
def exporter(cluster: Cluster, folder: Path) -> Iterator[str]:
    """An exporter of the cluster; its host and port."""
    log, web_config = folder / "exporter.log", write_web_config(folder)
    options = ["--kubeconfig", str(cluster.kubeconfig), "--listen", "127.0.0.1:0"]
    with running([str(DRAY), "exporter", *options, "--web-config", str(web_config)], log):
        address = block_until(
            lambda: log.read_text("utf-8").partition("https://")[2].partition("/metrics")[0],
            "the address of the exporter",
        )
        yield address


@contextlib.contextmanager
def prometheus(target: str, folder: Path) -> Iterator[Prometheus]:
    job = {
        "job_name": "dray",
        "scheme": "https",
        "tls_config": {"ca_file": "authority.crt"},
        "basic_auth": {"username": "prometheus", "password": PASSWORD},
        "static_configs": [{"targets": [target]}],
    }
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    rules = [str(FOLDER / "rules.yaml")]
    config = {"global": every, "rule_files": rules, "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        program("prometheus"),
        *(f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"),
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, folder / "prometheus.log"):
        yield Prometheus(port)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A cluster with partitionable GPUs, a pod that has one and a pod that waits."""
    with Cluster("a100-mig") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def watched(fleet: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    with exporter(fleet, folder) as address, prometheus(address, folder) as server:
        block_until(lambda: server.query("dray_exporter_last_update_timestamp_seconds"), "figures")
        # What happens after the first scrape is seen as a change.
        fleet.apply(ROOT / "examples" / "01-one-gpu" / "one-gpu.yaml")
        fleet.apply(ROOT / "examples" / "02-exact-model" / "b200.yaml")
        fleet.wait_for_pod("train", "Running")
        fleet.wait_until_unschedulable("big")
        yield server


def test_prometheus_accepts_the_web_configuration(tmp_path: Path) -> None:
    file = write_web_config(tmp_path)
    code, printed = promtool(tmp_path, "check", "web-config", str(file))
    assert code == 0, printed


def test_prometheus_scrapes_the_exporter_and_runs_the_rules(
    fleet: Cluster, watched: Prometheus
) -> None:
    (target,) = watched.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert ALERTS.keys() == {rule["name"] for rule in watched.rules() if rule["type"] == "alerting"}
    block_until(lambda: {rule["health"] for rule in watched.rules()} == {"ok"}, "all rules")
    block_until(lambda: watched.query("device_class:dray_devices_allocated:ratio"), "a recording")
    # Before the first scrape an alert about the missing exporter is pending.
    block_until(lambda: watched.alerts() == {}, "no alert")

    fleet.fail("a100-1", "gpu-0")
    block_until(lambda: watched.alerts() == {"DrayDeviceUnhealthy": "pending"}, "the alert")
    (sample,) = watched.query("dray_devices_unhealthy > 0")
    assert (sample["metric"]["node"], sample["value"][1]) == ("a100-1", "1")


def test_what_prometheus_stores_is_what_the_table_says(watched: Prometheus) -> None:
    stored = {name for name in watched.get("label/__name__/values") if name.startswith("dray_")}
    assert stored <= SERIES.keys()
    types = watched.get("metadata")
    for metric in METRICS:
        (known,) = types[metric.name]
        assert (known["type"], known["help"]) == (metric.type, metric.help)
    for name in stored:
        labels = {key for series in watched.get("series", **{"match[]": name}) for key in series}
        added = {"__name__", "instance", "job", "le"}
        assert labels - added == set(SERIES[name].labels), name


def test_every_panel_of_the_dashboard_shows_something(watched: Prometheus) -> None:
    queries = [
        query.expression
        for row in make_dashboard.ROWS.values()
        for metric in row.values()
        for query in make_dashboard.queries(metric)
    ]
    queries += [stat.query.expression for stat in make_dashboard.STATS]
    for query in queries:
        asked = query.replace("$__rate_interval", "1m")
        for label in make_dashboard.VARIABLES:
            asked = asked.replace(f"${label}", ".*")
        block_until(lambda: watched.query(asked), asked)  # noqa: B023
