"""The Helm chart of the exporter: its arguments, its rights, and the rules and dashboard in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dray import telemetry
from dray.api import features
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.cli.components import exporter as command
from dray.cli.components import foreground
from dray.clock import utc_now
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet as fleets
from dray.exporter import exporter as exporting
from dray.store import memory
from tests import audit
from tests.cluster.world import World, claim, claim_spec, pod, request
from tests.deploy import helm, installing
from tests.deploy.helm import CHARTS

CHART = "dray-exporter"
ACCOUNT = installing.account(CHART)
MONITORING = CHARTS.parent / "monitoring"
FIGURE = 'dray_device_class_devices{device_class="gpu.nvidia.com",state="in_use"} 1'


@pytest.mark.parametrize("gate", [False, True])
def test_a_working_day_uses_every_right_and_is_refused_nothing(tmp_path: Path, gate: bool) -> None:
    log = tmp_path / "audit"
    gates = features.with_gates(features.DEFAULT, {"GenericWorkload": gate})
    objects = helm.documents(CHART, {"genericWorkload": gate})

    async def day() -> None:
        plan = ClusterPlan(
            Settings(features=gates, audit_log=log), fleet=fleets.load("h100", nodes=1)
        )
        async with memory.open() as store, assembly.running(store, tmp_path, plan) as made:
            world = World(made, made.client())
            await installing.make_namespace(world.client)
            await installing.install(world.client, objects)
            await world.create(claim("one", claim_spec(request())))
            await world.create(pod("p", claim="one"))
            await world.pod_phase("p", "Running")
            await export(world, gates)

    asyncio.run(day())
    asked = [each for each in audit.read(log) if each.user == ACCOUNT.name]
    assert audit.refused(asked) == set()
    assert installing.rights(objects) == {each.right for each in asked if each.resource}


async def export(world: World, gates: features.Features) -> None:
    """Export until the figures show what is in use."""
    registry = telemetry.Registry()
    exporter = exporting.Exporter(
        world.cluster.client(ACCOUNT), registry, features=gates, now=utc_now
    )
    exporter.start()
    running = asyncio.ensure_future(exporter.run())

    async def shows() -> bool:
        return FIGURE in await registry.collected()

    try:
        await world.until(shows, "the figures being there")
    finally:
        running.cancel()


@pytest.mark.parametrize("values", [{}, {"metrics": {"webConfigSecret": "s", "tls": True}}])
def test_the_command_takes_the_arguments_of_the_container(
    values: JsonObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []

    def run(work: Any) -> None:
        work.close()
        ended.append(work)

    monkeypatch.setattr(foreground, "run", run)
    arguments = helm.container(helm.documents(CHART, values))["args"]
    given = [each.replace("$(POD_IP)", "::1") for each in arguments]
    done = CliRunner().invoke(command.exporter, given)
    assert (done.exit_code, len(ended)) == (0, 1), done.output


def test_probes_use_tls_where_the_metrics_do() -> None:
    for tls, scheme in ((False, "HTTP"), (True, "HTTPS")):
        container = helm.container(helm.documents(CHART, {"metrics": {"tls": tls}}))
        for name in ("livenessProbe", "readinessProbe"):
            assert container[name]["httpGet"]["scheme"] == scheme


def test_rules_and_dashboard_are_those_of_the_folder() -> None:
    monitoring = {"serviceMonitor": True, "rules": True, "dashboard": True}
    objects = helm.documents(CHART, {"monitoring": monitoring})
    (rule,) = helm.of_kind(objects, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((MONITORING / "rules.yaml").read_text("utf-8"))
    (dashboard,) = helm.of_kind(objects, "ConfigMap")
    assert dashboard["data"]["dray.json"] == (MONITORING / "dashboard.json").read_text("utf-8")
    (monitor,) = helm.of_kind(objects, "ServiceMonitor")
    (service,) = helm.of_kind(objects, "Service")
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    assert selected <= service["metadata"]["labels"].items()
    ports = {port["name"] for port in service["spec"]["ports"]}
    assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == ports
