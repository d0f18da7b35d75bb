"""The page of a pod: claim → request → device → node → container, for each of its claims."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api import kinds
from dray.api.conversion import typed_objects
from dray.api.ids import ClaimKey
from dray.api.semantics import owner_references, pod_claims
from dray.api.types.dra import ResourceClaim
from dray.api.types.pods import ContainerStatus, Pod
from dray.ui.pages.objects import chains
from dray.ui.pages.objects.page_documents import (
    ChainStep,
    Fact,
    ObjectPage,
    claim_link,
    events_about,
    fact,
    node_link,
    shown,
    yaml_of,
)
from dray.ui.pages.viewer import Viewer


async def of(viewer: Viewer, namespace: str, name: str) -> ObjectPage:
    """Return the page. Raises the errors of the API server."""
    client = viewer.person.client
    document = {**kinds.POD.type_meta, **await client.get(kinds.POD, name, namespace)}
    pod = typed_objects.decode(document, Pod)
    return ObjectPage(
        f"{namespace}/{name}",
        "Pod",
        list(_facts(viewer, pod)),
        shown(_chain(viewer, pod)),
        await events_about(client, "Pod", name, namespace),
        await yaml_of(document),
    )


def _facts(viewer: Viewer, pod: Pod) -> Iterator[Fact]:
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    waiting = viewer.model.waiting.entries.get(f"pod/{metadata.namespace}/{metadata.name}")
    yield from fact("Phase", status.phase or "Pending")
    if waiting is not None:
        yield from fact("Reason", waiting.reason)
    if spec.node_name:
        yield from fact("Node", spec.node_name, node_link(spec.node_name))
    yield from fact("Created", metadata.creation_timestamp)
    yield from fact("Deleted", metadata.deletion_timestamp)
    owner = owner_references.controller_of(metadata)
    if owner is not None:
        yield from fact("Owner", f"{owner.kind} {owner.name}")
    yield from fact("Group", pod_claims.group_name(pod))
    yield from fact("Priority", spec.priority)
    yield from fact("Scheduler", spec.scheduler_name)
    for used in pod_claims.claims_of_pod(pod):
        link = claim_link(metadata.namespace, used.name) if used.name else None
        yield from fact("Claim", used.name or f"{used.pod_claim} (not created yet)", link)


def _chain(viewer: Viewer, pod: Pod) -> Iterator[ChainStep]:
    namespace = pod.metadata.namespace
    for used in pod_claims.claims_of_pod(pod):
        if not used.name:
            yield ChainStep("claim", used.pod_claim, "not created")
            continue
        claim: ResourceClaim | None = viewer.model.find(kinds.RESOURCE_CLAIM, used.name, namespace)
        if claim is None:
            link = claim_link(namespace, used.name)
            yield ChainStep("claim", str(ClaimKey(namespace, used.name)), "not found", link)
        else:
            yield from chains.of_claim(viewer.model, claim)
    if pod.spec.node_name:
        yield chains.node_step(viewer.model, pod.spec.node_name)
    yield from containers(pod)


def containers(pod: Pod) -> Iterator[ChainStep]:
    """Yield the containers of a pod, those first that use its claims."""
    states = {status.name: _state(status) for status in pod.status.container_statuses}
    states |= {status.name: _state(status) for status in pod.status.init_container_statuses}
    every = (*pod.spec.init_containers, *pod.spec.containers)
    for container in sorted(every, key=lambda item: not item.resources.claims):
        claims = ", ".join(claim.name for claim in container.resources.claims)
        text = f"{container.name} (claim {claims})" if claims else container.name
        yield ChainStep("container", text, states.get(container.name, "waiting"))


def _state(status: ContainerStatus) -> str:
    state = status.state
    if state.running is not None:
        return "running"
    if state.terminated is not None:
        return f"terminated ({state.terminated.reason or state.terminated.exit_code})"
    reason = state.waiting.reason if state.waiting is not None else ""
    return f"waiting ({reason})" if reason else "waiting"
