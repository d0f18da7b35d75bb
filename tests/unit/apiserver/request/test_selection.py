"""A selection sees as much in the little that it reads of an object as in the whole of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.selectors import field_selectors, label_selectors
from dray.apiserver.request import selection
from dray.apiserver.request.selection import StoredObjectSelector
from dray.apiserver.storage import codec

PODS: list[dict[str, Any]] = [
    {"metadata": {"name": "bare", "namespace": "a"}},
    {"metadata": {"name": "empty", "namespace": "a", "labels": {}}, "spec": {}, "status": {}},
    {
        "metadata": {"name": "full", "namespace": "b", "labels": {"app": "x", "tier": "web"}},
        "spec": {"nodeName": "n1", "hostNetwork": True, "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready"}]},
    },
    {
        "metadata": {"name": "done", "namespace": "b", "labels": {"app": "y"}},
        "spec": {"nodeName": "n2"},
        "status": {"phase": "Succeeded"},
    },
]
CASES = [
    ("", "spec.nodeName!="),
    ("", "spec.nodeName=n1,status.phase!=Failed"),
    ("", "status.phase!=Succeeded,status.phase!=Failed"),
    ("", "metadata.name=full"),
    ("", "metadata.namespace=b,metadata.name!=full"),
    ("", "spec.hostNetwork=true"),
    ("app=x", ""),
    ("app in (x,y),!tier", ""),
    ("tier", "spec.nodeName=n1"),
]


@pytest.mark.parametrize(("labels", "fields"), CASES)
def test_what_is_read_is_enough(labels: str, fields: str) -> None:
    chosen = StoredObjectSelector(
        label_selectors.parse(labels), field_selectors.parse_fields(fields)
    )
    look = selection.reader(chosen)
    for pod in PODS:
        stored = codec.to_stored(pod)
        whole = msgspec.json.decode(stored)
        assert chosen.matches(look(stored)) == chosen.matches(whole), pod["metadata"]["name"]


def test_no_more_is_read_than_asked_for() -> None:
    chosen = StoredObjectSelector(
        fields=field_selectors.parse_fields("spec.nodeName=n1,status.phase=Running")
    )
    looked = selection.reader(chosen)(codec.to_stored(PODS[2]))
    assert looked == {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
