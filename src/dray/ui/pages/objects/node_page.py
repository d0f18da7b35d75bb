"""The page of a node: its state and its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dray.api import kinds
from dray.api.conversion import typed_objects
from dray.api.semantics.conditions import find_condition
from dray.api.types.nodes import Node
from dray.drivers.simulated.fleet import FLEET_LABEL
from dray.ui.model.entries import Cell
from dray.ui.pages.objects import chains
from dray.ui.pages.objects.page_documents import (
    ChainStep,
    Fact,
    ObjectPage,
    device_link,
    events_about,
    fact,
    labels_text,
    shown,
    yaml_of,
)
from dray.ui.pages.viewer import Viewer


async def of(viewer: Viewer, name: str) -> ObjectPage:
    """Return the page. Raises the errors of the API server."""
    client = viewer.person.client
    document = {**kinds.NODE.type_meta, **await client.get(kinds.NODE, name)}
    node = typed_objects.decode(document, Node)
    cells = [(key, cell) for key, cell in viewer.model.fleet.cells.items() if cell.n == name]
    return ObjectPage(
        name,
        "Node",
        list(_facts(node, [cell for _, cell in cells])),
        shown([chains.node_step(viewer.model, name), *map(_device_step, cells)]),
        await events_about(client, "Node", name),
        await yaml_of(document),
    )


def _facts(node: Node, cells: list[Cell]) -> Iterator[Fact]:
    yield from fact("State", chains.node_state(node))
    ready = find_condition(node.status.conditions, "Ready")
    if ready is not None and ready.status != "True":
        yield from fact("Reason", ready.message or ready.reason)
    counts = Counter(cell.st for cell in cells)
    yield from fact("Devices", ", ".join(f"{number} {state}" for state, number in counts.items()))
    yield from fact("Kubelet", node.status.node_info.kubelet_version)
    yield from fact("Runtime", node.status.node_info.container_runtime_version)
    yield from fact("Simulated", "yes" if FLEET_LABEL in node.metadata.labels else "")
    for address in node.status.addresses:
        yield from fact(address.type, address.address)
    for taint in node.spec.taints:
        value = f"={taint.value}" if taint.value else ""
        yield from fact("Taint", f"{taint.key}{value}:{taint.effect}")
    yield from fact("Labels", labels_text(node.metadata.labels))
    yield from fact("Created", node.metadata.creation_timestamp)


def _device_step(found: tuple[str, Cell]) -> ChainStep:
    key, cell = found
    return ChainStep("device", key, cell.t or cell.st, device_link(key))
