"""Flows that were recorded on a real control plane end with the same objects on dray.

The commands of each transcript are done one by one; wherever claims or pods were printed as YAML,
dray comes to the same ones: modulo names, times and which of equal nodes and devices was taken.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec
import pytest

from dray.api import errors, features, kinds
from dray.api.types.meta import JsonObject
from dray.apiserver.server import Settings
from dray.cluster.assembly import ClusterPlan
from dray.drivers.simulated import fleet, fleet_file
from dray.drivers.simulated.fleet import Fleet
from tests.cluster import transcripts
from tests.cluster.transcripts import Step, Transcript
from tests.cluster.world import World, with_plan
from tests.recorded import without_shown_objects

FLOWS = [
    "010", "011", "012", "013", "014", "015", "017", "018", "019", "021", "022", "023", "024",
    "025", "026", "027", "028", "030", "032", "037", "038", "039", "040", "042",
]  # fmt: skip
"""Those in which a scheduler or a controller has a part; for the others see `tests/wire`."""

MOVING = {
    "011-job-shared-and-template": "the claims of a job come and go while it is looked at",
}
"""Flows whose claims are compared when everything is over only."""

ALL_GATES = msgspec.structs.replace(
    features.DEFAULT, **{gate.field: True for name, gate in features.GATES.items() if "DRA" in name}
)
ALL_GATES = msgspec.structs.replace(ALL_GATES, generic_workload=True)


@pytest.mark.parametrize("name", transcripts.present(*FLOWS))
def test_recorded_flow_ends_with_the_same_objects(name: str, tmp_path: Path) -> None:
    transcript = transcripts.read(name)

    async def flow(world: World) -> None:
        await _Replay(world, transcript).run()

    plan = ClusterPlan(settings=Settings(features=ALL_GATES), fleet=_fleet())
    with_plan(flow, tmp_path, plan)


class _Replay:
    def __init__(self, world: World, transcript: Transcript) -> None:
        self._world, self._transcript = world, transcript
        self._images: list[str] = []

    async def run(self) -> None:
        await self._world.create(_class())
        for step in self._transcript.steps:
            if step.words[0] == "kubectl":
                refusal = await self._refusal(step)
                printed = without_shown_objects(step.output) if refusal else ""
                assert all(without_shown_objects(words) in printed for words in refusal)

    async def _refusal(self, step: Step) -> list[str]:
        """What the server says where it does not do as told; kubectl prints causes one by one."""
        try:
            await self._do(step)
        except errors.StatusError as error:
            causes = [f"{cause.field}: {cause.message}" for cause in error.causes]
            return causes or [error.message]
        return []

    async def _do(self, step: Step) -> None:
        match step.verb:
            case "apply":
                for body in step.sent or self._transcript.manifests[step.option("-f")]:
                    await self._apply(body)
            case "run":
                await self._run(step)
            case "patch":
                await self._patch(step)
            case "delete":
                await self._delete(step)
            case "scale":
                await self._change_deployment(step, {"replicas": int(step.option("--replicas"))})
            case "set":
                await self._set_image(step, step.words[-1].partition("=")[2])
            case "rollout" if step.words[2] == "undo":
                await self._set_image(step, self._images[-2])
            case "wait" if step.option("--for") == "condition=PodScheduled":
                for subject in step.subjects:
                    if subject.startswith("pod/"):
                        await self._world.bound(subject.removeprefix("pod/"), _namespace(step))
            case "rollout" if step.words[2] == "status":
                await self._world.rolled_out(step.words[3].partition("/")[2])
            case "get" if step.option("-o") == "yaml":
                await self._compare(step)
            case "get" if "No resources found" in step.output and "-A" in step.words:
                await self._world.until(self._no_claims, "the claims going")

    async def _apply(self, body: JsonObject) -> None:
        body = msgspec.json.decode(msgspec.json.encode(body))
        if body["kind"] == "Pod" and body["spec"].get("restartPolicy") == "Never":
            annotations = body["metadata"].setdefault("annotations", {})
            annotations["dray.dev/run-seconds"] = "3600"
        namespace = body["metadata"].get("namespace", "default")
        with contextlib.suppress(errors.AlreadyExists):
            await self._world.create(body, namespace)
        if body["kind"] == "Deployment":
            self._images.append(body["spec"]["template"]["spec"]["containers"][0]["image"])

    async def _run(self, step: Step) -> None:
        body = json.loads(step.option("--overrides"))
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": step.subjects[0]}, **body}
        await self._world.create(pod)

    async def _patch(self, step: Step) -> None:
        resource, name = step.subjects[:2]
        kind = _kind(resource)
        await self._world.client.patch(
            kind,
            name,
            json.loads(step.option("-p")),
            "default" if kind.namespaced else "",
            subresource=step.option("--subresource"),
        )

    async def _delete(self, step: Step) -> None:
        if step.option("-f"):
            for body in reversed(self._transcript.manifests[step.option("-f")]):
                group, _ = kinds.parse_api_version(body["apiVersion"])
                await self._remove(kinds.served(group, body["kind"]), body["metadata"])
            return
        resource, *names = step.subjects
        for name in names:
            await self._remove(_kind(resource), {"name": name})

    async def _remove(self, kind: kinds.Kind, metadata: JsonObject) -> None:
        namespace = metadata.get("namespace", "default") if kind.namespaced else ""
        options = {"propagationPolicy": "Background"}
        with contextlib.suppress(errors.NotFound):
            await self._world.client.delete(kind, metadata["name"], namespace, options)

    async def _change_deployment(self, step: Step, spec: JsonObject) -> None:
        name = step.subjects[-1] if step.verb == "scale" else step.words[3].partition("/")[2]
        await self._world.client.patch(kinds.DEPLOYMENT, name, {"spec": spec}, "default")

    async def _set_image(self, step: Step, image: str) -> None:
        self._images.append(image)
        name = step.words[3].partition("/")[2]
        found = await self._world.get(kinds.DEPLOYMENT, name)
        (container,) = found["spec"]["template"]["spec"]["containers"]
        containers = [{**container, "image": image}]
        await self._change_deployment(step, {"template": {"spec": {"containers": containers}}})

    async def _compare(self, step: Step) -> None:
        if self._transcript.name in MOVING or "Error from server" in step.output:
            return
        resource = step.subjects[0]
        namespace = _namespace(step)
        if resource.startswith("resourceclaim") and "template" not in resource:
            names = {*step.subjects[1:]} - {"yaml"}
            await self._same_claims(transcripts.items(step.output), names, namespace)
        elif resource == "pods":
            await self._same_pods(transcripts.items(step.output))
        elif resource in ("resourcequota", "resourcepoolstatusrequest"):
            await self._same_objects(_kind(resource), transcripts.items(step.output), namespace)

    async def _same_claims(
        self, recorded: list[JsonObject], names: set[str], namespace: str
    ) -> None:
        expected = _in_order(map(transcripts.claim_view, recorded))

        async def found() -> list[JsonObject]:
            claims = await self._world.all(kinds.RESOURCE_CLAIM, namespace=namespace)
            chosen = [claim for claim in claims if not names or claim["metadata"]["name"] in names]
            return _in_order(map(transcripts.claim_view, chosen))

        await self._world.come_to(found, expected)

    async def _same_objects(
        self, kind: kinds.Kind, recorded: list[JsonObject], namespace: str
    ) -> None:
        async def found() -> list[JsonObject]:
            objects = await self._world.all(kind, namespace=namespace if kind.namespaced else "")
            return _in_order(map(transcripts.plain_view, objects))

        await self._world.come_to(found, _in_order(map(transcripts.plain_view, recorded)))

    async def _same_pods(self, recorded: list[JsonObject]) -> None:
        expected = _in_order(map(transcripts.pod_view, recorded))

        async def found() -> list[JsonObject]:
            pods = await self._world.all(kinds.POD, namespace="default")
            return _in_order(map(transcripts.pod_view, pods))

        await self._world.come_to(found, expected)
        for pod in recorded:
            refusal = transcripts.refusal_of(pod)
            if refusal:
                said = await self._world.unschedulable(pod["metadata"]["name"])
                assert transcripts.anywhere(said).startswith(transcripts.anywhere(refusal))

    async def _no_claims(self) -> bool:
        return not await self._world.all(kinds.RESOURCE_CLAIM)


def _namespace(step: Step) -> str:
    return step.option("-n") or "default"


def _in_order(views: object) -> list[JsonObject]:
    return sorted(views, key=str)  # type: ignore[call-overload,no-any-return]


def _kind(resource: str) -> kinds.Kind:
    named = {"ns": "namespaces", "node": "nodes"}
    plural = named.get(resource, resource if resource.endswith("s") else f"{resource}s")
    (found,) = [
        kind for kind in kinds.KINDS if kind.plural == plural and kind.group != "events.k8s.io"
    ]
    return found


def _class() -> JsonObject:
    (body,) = transcripts.read("001-deviceclass").manifests["manifest.yaml"]
    return body


def _fleet() -> Fleet:
    """The nodes of the recordings: four with eight GPUs, a small one with two."""
    common = {
        "driverVersion": {"version": "1.0.0"},
        "type": "gpu",
        "model": "LATEST-GPU-MODEL",
        "uuid": "gpu-000{number}-0{index}",
    }
    model = fleet_file.Model(name="gpu-{index}", attributes=common)
    numa = "resource.kubernetes.io/numaNode"
    large = fleet_file.DeviceGroup(
        model="gpu",
        count=8,
        attributes={numa: [0, 0, 0, 0, 1, 1, 1, 1]},
        capacity={"memory": "80Gi"},
    )
    small = fleet_file.DeviceGroup(
        model="gpu", count=2, attributes={numa: 0}, capacity={"memory": "16Gi"}
    )
    driver = "gpu.example.com"
    groups = (
        fleet_file.NodeGroup(name="node-{number}", count=4, devices={driver: (large,)}),
        fleet_file.NodeGroup(name="small-{number}", count=1, devices={driver: (small,)}),
    )
    described = fleet_file.FleetBlueprint(nodes=groups, models={"gpu": model})
    return fleet.build(described, name="recorded")
