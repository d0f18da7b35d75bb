"""A whole cluster for a test: API server, scheduler, controllers and simulated nodes, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dray.api import features, kinds
from dray.api.features import Features
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.client.api_client import Client, ObjectSelection
from dray.cluster import assembly
from dray.cluster.assembly import ClusterPlan, RunningCluster
from dray.drivers.simulated import fleet as fleets
from dray.store import memory
from dray.testing import invariants
from dray.testing.revisions import RevisionWatch

DEADLINE_SECONDS = 45.0
CLASS = "gpu.nvidia.com"


@dataclass(frozen=True)
class World:
    cluster: RunningCluster
    client: Client

    async def create(self, body: JsonObject, namespace: str = "default") -> JsonObject:
        group, _ = kinds.parse_api_version(body["apiVersion"])
        kind = kinds.served(group, body["kind"])
        return await self.client.create(kind, body, namespace if kind.namespaced else "")

    async def get(self, kind: kinds.Kind, name: str, namespace: str = "default") -> JsonObject:
        return await self.client.get(kind, name, namespace if kind.namespaced else "")

    async def all(self, kind: kinds.Kind, **selection: str) -> list[JsonObject]:
        page = await self.client.list(kind, ObjectSelection(**selection))
        return [msgspec.json.decode(raw) for raw in page.items]

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Wait until a condition is true; what it says then. Never sleeps longer than needed."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    found = await condition()
                    if found:
                        return found
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{what} did not happen: {await self.describe()}") from None

    async def come_to(self, look: Callable[[], Awaitable[Any]], expected: Any) -> None:
        """Wait until a look at the cluster shows what is expected."""
        seen: list[Any] = [None]

        async def is_there() -> bool:
            seen[0] = await look()
            return bool(seen[0] == expected)

        try:
            await self.until(is_there, "what is expected")
        except AssertionError:
            assert seen[0] == expected

    async def describe(self) -> str:
        """The pods and claims, for a test that waited in vain."""
        lines = []
        for pod in await self.all(kinds.POD):
            conditions = [c.get("message", "") for c in pod["status"].get("conditions", ())]
            lines.append(f"{pod['metadata']['name']}: {pod['status'].get('phase')} {conditions}")
        for claim in await self.all(kinds.RESOURCE_CLAIM):
            lines.append(f"{claim['metadata']['name']}: {claim['status']}")
        return "\n".join(lines)

    async def pod_phase(self, name: str, phase: str) -> JsonObject:
        async def reached() -> JsonObject | None:
            pod = await self.get(kinds.POD, name)
            return pod if pod["status"].get("phase") == phase else None

        found: JsonObject = await self.until(reached, f"pod {name} being {phase}")
        return found

    async def bound(self, name: str, namespace: str = "default") -> None:
        async def has_node() -> bool:
            return bool((await self.get(kinds.POD, name, namespace))["spec"].get("nodeName"))

        await self.until(has_node, f"pod {name} having a node")

    async def rolled_out(self, name: str) -> None:
        """Wait until every pod of a deployment is new and ready, and no old one is left."""

        async def is_complete() -> bool:
            found = await self.get(kinds.DEPLOYMENT, name)
            status, wanted = found["status"], found["spec"]["replicas"]
            counts = [status.get(f"{each}eplicas") for each in ("r", "updatedR", "availableR")]
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return is_seen and counts == [wanted] * 3

        await self.until(is_complete, f"deployment {name} being rolled out")

    async def unschedulable(self, name: str) -> str:
        """The message of a pod that finds no place."""

        async def refused() -> str:
            pod = await self.get(kinds.POD, name)
            for condition in pod["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition.get("message", ""))
            return ""

        return str(await self.until(refused, f"pod {name} being refused"))

    async def devices_of(self, claim: str) -> list[str]:
        """The devices a claim has, as `pool/device`."""
        status = (await self.get(kinds.RESOURCE_CLAIM, claim))["status"]
        results = status["allocation"]["devices"]["results"]
        return [f"{result['pool']}/{result['device']}" for result in results]

    async def claim_of(self, pod: str, name: str = "gpu") -> str:
        """The name of the claim that was generated for a pod."""
        statuses = (await self.get(kinds.POD, pod))["status"].get("resourceClaimStatuses", ())
        (found,) = [status["resourceClaimName"] for status in statuses if status["name"] == name]
        return str(found)


def with_cluster(
    test: Callable[[World], Awaitable[None]],
    directory: Path,
    fleet: str = "h100",
    *,
    nodes: int | None = None,
    settings: Settings | None = None,
) -> None:
    """Run a test on a fresh cluster, then look at what is left with the invariant checker."""

    plan = ClusterPlan(settings=settings or Settings(), fleet=fleets.load(fleet, nodes=nodes))
    with_plan(test, directory, plan)


def with_plan(test: Callable[[World], Awaitable[None]], directory: Path, plan: ClusterPlan) -> None:
    """As `with_cluster`, for any plan."""

    async def run() -> AssertionError | None:
        async with memory.open() as store, assembly.running(store, directory, plan) as running:
            world = World(running, running.client())
            async with RevisionWatch(world.client).running() as revisions:
                try:
                    published = "the fleet being published"
                    await world.until(lambda: _is_published(world, plan), published)
                    await test(world)
                    await sound(world, plan.settings.features)
                    assert revisions.violations == []
                except AssertionError as failure:
                    # Raised outside, where no task group wraps it.
                    return failure
        return None

    failure = asyncio.run(run())
    if failure is not None:
        raise failure


async def _is_published(world: World, plan: ClusterPlan) -> bool:
    """Whether every slice of the fleet is there."""
    assert plan.fleet is not None
    return len(await world.all(kinds.RESOURCE_SLICE)) >= len(list(plan.fleet.slices()))


async def sound(world: World, gates: Features = features.DEFAULT) -> None:
    """Wait until every invariant holds; AssertionError says which does not."""

    async def violations() -> list[str]:
        prepared = world.cluster.prepared_claims()
        return await invariants.violations(world.client, gates, prepared)

    async def is_sound() -> bool:
        return not await violations()

    await world.until(is_sound, f"the end of {await violations()}")


def claim_spec(*requests: JsonObject, **fields: Any) -> JsonObject:
    return {"devices": {"requests": list(requests), **fields}}


def request(name: str = "gpu", **exactly: Any) -> JsonObject:
    selectors = [{"cel": {"expression": text}} for text in exactly.pop("selectors", ())]
    body = {"deviceClassName": CLASS, **exactly}
    if selectors:
        body["selectors"] = selectors
    return {"name": name, "exactly": body}


def template(name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": spec},
    }


def claim(name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod_spec(
    *, template: str = "", claim: str = "", containers: int = 1, restart: str = "Always"
) -> JsonObject:
    """A pod that uses one claim in every container."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    return {
        "restartPolicy": restart,
        "containers": [
            {
                "name": f"c{number}",
                "image": "busybox",
                "command": ["sleep", "infinity"],
                "resources": {"claims": [{"name": "gpu"}]},
            }
            for number in range(containers)
        ],
        "resourceClaims": [{"name": "gpu", **source}],
    }


def pod(name: str, **uses: Any) -> JsonObject:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(**uses)}
