"""The user of the host that an admin chose for a namespace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.meta import JsonObject
from dray.node.pods.context import PodState, PodWorkerContext
from dray.node.pods.pod_preparation import PodPreparation
from dray.node.runtimes.interface import ContainerConfigError
from tests.unit.node import fakes
from tests.unit.node.fakes import FakeNode, FakeRuntime

ANNOTATION = "dray.dev/host-user-id"


class RootRuntime(FakeRuntime):
    """A runtime whose containers have other users than the agent."""

    uses_host_user_id = True
    asked: int | None = None

    def host_ids(self, host_user_id: int | None) -> None:
        self.asked = host_user_id


class Namespaces:
    def __init__(self, annotations: JsonObject | None) -> None:
        self._annotations = annotations

    async def get(self, kind: Any, name: str) -> JsonObject:
        assert (kind.singular, name) == ("namespace", "ns")
        metadata = {"name": name, "annotations": self._annotations}
        return {"metadata": metadata if self._annotations else {"name": name}}


def chosen(folder: Path, annotations: JsonObject | None) -> tuple[int | None, int | None]:
    """The user of the pod's state, and the one that the runtime was asked about."""

    async def prepare() -> tuple[int | None, int | None]:
        node, runtime = FakeNode(folder), RootRuntime()
        client: Any = Namespaces(annotations)
        node.runtime, node.client = runtime, client
        state = PodState(fakes.pod(fakes.container()))
        await PodPreparation(PodWorkerContext(node.context, state))._make_volumes()
        return state.host_user_id, runtime.asked

    return asyncio.run(prepare())


def test_the_annotation_reaches_the_runtime(tmp_path: Path) -> None:
    assert chosen(tmp_path, {ANNOTATION: "1234"}) == (1234, 1234)
    assert chosen(tmp_path, {"other": "1"}) == (None, None)
    assert chosen(tmp_path, None) == (None, None)


@pytest.mark.parametrize(
    "value", ["0", "999", "-1", "", "abc", "1e4", "٣٣٣٣", "2147483647", "9" * 5000, "1000\n"]
)
def test_other_values_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ContainerConfigError, match=r"namespace ns: metadata.annotations"):
        chosen(tmp_path, {ANNOTATION: value})
