"""`dray demo`: the whole story on a simulated fleet. Exits non-zero on any surprise."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from dray import cluster
from dray.api import errors, kinds
from dray.client.verbs import Client
from dray.cluster import Plan
from dray.drivers.simulated import fleet as fleets
from dray.store import memory

Object = dict[str, Any]

DEADLINE_SECONDS = 30.0
POD = kinds.served("", "Pod")
CLAIM = kinds.served("resource.k8s.io", "ResourceClaim")
SLICE = kinds.served("resource.k8s.io", "ResourceSlice")

FORTY_GIGABYTES = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'


class Surprise(click.ClickException):
    """Something is not as it should be."""


@click.command()
def demo() -> None:
    """Start a simulated cluster and walk through what DRA does."""
    started = time.perf_counter()
    asyncio.run(_story())
    click.echo(f"\nAll of it was as it should be, in {time.perf_counter() - started:.1f} s.")


async def _story() -> None:
    fleet = fleets.load("quickstart")
    with tempfile.TemporaryDirectory(prefix="dray-demo-") as directory:
        plan = Plan(fleet=fleet)
        async with memory.open() as store, cluster.running(store, Path(directory), plan) as made:
            surprise = await _tell(Demo(made.client()), fleet.description)
    if surprise is not None:
        raise surprise


async def _tell(demo: Demo, description: str) -> Surprise | None:
    """The story; a surprise is returned, so that no task group wraps it."""
    try:
        await demo.fleet(description)
        await demo.one_gpu()
        await demo.impossible()
        await demo.partitions()
        await demo.refused()
    except Surprise as surprise:
        return surprise
    return None


class Demo:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def fleet(self, description: str) -> None:
        _headline("A cluster starts")
        slices = await self._until(lambda: self._all(SLICE), "the fleet being published")
        devices = sum(len(each["spec"].get("devices", ())) for each in slices)
        click.echo(f"{description}: {devices} devices in {len(slices)} slices.")

    async def one_gpu(self) -> None:
        _headline("A pod asks for one GPU with at least 40Gi")
        await self._apply(_template("one-gpu", FORTY_GIGABYTES))
        await self._apply(_pod("train", "one-gpu"))
        await self._running("train")
        claim = await self._claim_of("train")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        name, device = claim["metadata"]["name"], f"{result['pool']}/{result['device']}"
        click.secho(f"train runs; its claim {name} has {device}.", fg="green")

    async def impossible(self) -> None:
        _headline("Another asks for what nobody has")
        selector = FORTY_GIGABYTES.replace("40Gi", "500Gi")
        await self._apply(_template("huge", selector), show=False)
        await self._apply(_pod("dream", "huge"), show=False)
        click.echo(selector)
        message = await self._until(lambda: self._refusal("dream"), "dream being refused")
        click.secho(str(message), fg="yellow")

    async def partitions(self) -> None:
        _headline("Two share an A100 by its MIG partitions")
        profile = 'device.attributes["gpu.nvidia.com"].profile == "3g.40gb"'
        await self._apply(_template("half", profile, "mig.nvidia.com"), show=False)
        for name in ("left", "right"):
            await self._apply(_pod(name, "half"), show=False)
        for name in ("left", "right"):
            await self._running(name)
            claim = await self._claim_of(name)
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            click.secho(f"{name:<6}{result['pool']}/{result['device']}", fg="green")

    async def refused(self) -> None:
        _headline("A mistake is refused where it is made")
        mistaken = _template("typo", 'device.capacity["gpu.nvidia.com"].memory >= "40Gi"')
        try:
            await self._apply(mistaken, show=False)
        except errors.Invalid as error:
            click.secho(str(error), fg="yellow")
            return
        raise Surprise("a selector that cannot be right was accepted")

    async def _apply(self, body: Object, *, show: bool = True) -> None:
        if show:
            click.echo(yaml.safe_dump(body, sort_keys=False))
        group, _ = kinds.parse_api_version(body["apiVersion"])
        await self._client.create(kinds.served(group, body["kind"]), body, "default")

    async def _all(self, kind: kinds.Kind) -> list[Object]:
        return [msgspec.json.decode(raw) for raw in (await self._client.list(kind)).items]

    async def _running(self, pod: str) -> None:
        async def runs() -> bool:
            found = await self._client.get(POD, pod, "default")
            return bool(found["status"].get("phase") == "Running")

        await self._until(runs, f"{pod} running")

    async def _claim_of(self, pod: str) -> Object:
        found = await self._client.get(POD, pod, "default")
        (status,) = found["status"]["resourceClaimStatuses"]
        return await self._client.get(CLAIM, status["resourceClaimName"], "default")

    async def _refusal(self, pod: str) -> str:
        found = await self._client.get(POD, pod, "default")
        for condition in found["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
        return ""

    async def _until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not (found := await condition()):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Surprise(f"{what} did not happen within {DEADLINE_SECONDS:.0f} s") from None
        return found


def _headline(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _template(name: str, selector: str, device_class: str = "gpu.nvidia.com") -> Object:
    exactly = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": selector}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def _pod(name: str, template: str) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "containers": [{**container, "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        },
    }
