"""The tools give the facts of the commands, in answers below 8 KB, and only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.cli.mcp import answers
from dray.cli.mcp.tools import MANIFEST
from tests import audit
from tests.cli.mcp import assistant
from tests.cli.mcp.assistant import Assistant
from tests.cli.mcp.conftest import Audited
from tests.unit.cli.conftest import run

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: question}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}
"""
MISSPELT = CLAIM.replace("deviceClassName", "deviceClasName").replace("COUNT", "1")
OUTDATED = CLAIM.replace("resource.k8s.io/v1", "resource.k8s.io/v1beta2").replace("COUNT", "1")
HOPPER = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'
ABSENT = 'device.attributes["gpu.nvidia.com"].color == "red"'

# A question, the tool and its arguments, and the command line; "FILE" is the manifest.
QUESTIONS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("why train waits", "explain", {"objects": ["pod/train"]}, ["explain", "pod/train"]),
    ("a pod that fits", "explain", {"objects": ["pod/serve"]}, ["explain", "pod/serve"]),
    ("a claim", "explain", {"objects": ["claim/big"]}, ["explain", "claim/big"]),
    (
        "two objects",
        "explain",
        {"objects": ["pod/train", "claim/old"]},
        ["explain", "pod/train", "claim/old"],
    ),
    (
        "a pod elsewhere",
        "explain",
        {"objects": ["pod/lost"], "namespace": "team"},
        ["explain", "pod/lost", "-n", "team"],
    ),
    ("a namespace", "explain", {"namespace": "team"}, ["explain", "-n", "team"]),
    ("everything", "explain", {"all_namespaces": True}, ["explain", "-A"]),
    (
        "would one fit",
        "explain",
        {"manifest": CLAIM.replace("COUNT", "1")},
        ["explain", "-f", "FILE"],
    ),
    (
        "would nine fit",
        "explain",
        {"manifest": CLAIM.replace("COUNT", "9")},
        ["explain", "-f", "FILE"],
    ),
    ("an invalid claim", "explain", {"manifest": MISSPELT}, ["explain", "-f", "FILE"]),
    (
        "a misspelt field",
        "lint",
        {"manifest": MISSPELT, "against_cluster": False},
        ["lint", "FILE"],
    ),
    (
        "an old version",
        "lint",
        {"manifest": OUTDATED, "against_cluster": False},
        ["lint", "FILE"],
    ),
    (
        "too many for this cluster",
        "lint",
        {"manifest": CLAIM.replace("COUNT", "9")},
        ["lint", "FILE", "--against", "CONTEXT"],
    ),
    ("all devices", "devices", {}, ["get", "devices"]),
    ("devices of a node", "devices", {"names": ["gpu-1"]}, ["get", "devices", "gpu-1"]),
    (
        "devices by attribute",
        "devices",
        {"attributes": "architecture=Ampere"},
        ["get", "devices", "-l", "architecture=Ampere"],
    ),
    (
        "free devices",
        "devices",
        {"fields": "state=free"},
        ["get", "devices", "--field-selector", "state=free"],
    ),
    (
        "who had a device",
        "history",
        {"device": "gpu-0/gpu-1"},
        ["history", "device", "gpu-0/gpu-1"],
    ),
    (
        "who had it long ago",
        "history",
        {"device": "gpu-1/gpu-0", "at": "2001-01-01T00:00:00Z"},
        ["history", "device", "gpu-1/gpu-0", "--at", "2001-01-01T00:00:00Z"],
    ),
    ("what is wrong", "doctor", {}, ["doctor"]),
    ("a selector", "cel", {"expression": HOPPER}, ["cel", HOPPER, "--cluster"]),
    ("an absent attribute", "cel", {"expression": ABSENT}, ["cel", ABSENT, "--cluster"]),
    (
        "a selector alone",
        "cel",
        {"expression": "device.drivr", "against_cluster": False},
        ["cel", "device.drivr"],
    ),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "command"),
    [item[1:] for item in QUESTIONS],
    ids=[item[0] for item in QUESTIONS],
)
def test_a_tool_gives_the_facts_of_the_command(
    tool: str,
    arguments: dict[str, Any],
    command: list[str],
    audited: Audited,
    helper: Assistant,
    tmp_path: Path,
) -> None:
    file = tmp_path / "question.yaml"
    file.write_text(arguments.get("manifest", ""))
    context = audited.context
    words = [{"FILE": str(file), "CONTEXT": context}.get(word, word) for word in command]
    printed = audited.json(*words)
    assert printed
    assert helper.whole(tool, **arguments) == _named(printed, str(file))


def _named(document: Any, file: str) -> Any:
    """What a command found in a file, as if that had no name."""
    if isinstance(document, dict):
        return {key: _named(value, file) for key, value in document.items()}
    if isinstance(document, list):
        return [_named(item, file) for item in document]
    return document.replace(file, MANIFEST) if isinstance(document, str) else document


def test_answers_are_short_and_the_rest_can_be_read(helper: Assistant) -> None:
    first = helper.ask("devices")
    assert len(first.text) <= answers.LIMIT_BYTES
    (cut,) = first.quoted["more"]
    assert cut["path"] == "answer.items"
    assert cut["shown"] == len(first.document["items"]) < cut["of"]
    rest = helper.ask("more", cursor=cut["cursor"])
    assert len(rest.text) <= answers.LIMIT_BYTES
    assert (rest.quoted["path"], rest.quoted["from"]) == ("answer.items", cut["shown"])
    assert rest.document[0] != first.document["items"][-1]


def test_the_tools_have_typed_schemas_and_only_read(helper: Assistant) -> None:
    tools = {tool.name: tool for tool in helper.tools()}
    assert set(tools) == {"explain", "lint", "devices", "history", "doctor", "cel", "more"}
    for tool in tools.values():
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        types = [item["type"] for item in tool.input_schema["properties"].values()]
        assert set(types) <= {"string", "boolean", "array"}
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint


def test_the_audit_log_has_only_get_list_and_watch(audited: Audited) -> None:
    before = len(audit.read(audited.log))
    with assistant.started("--kubeconfig", str(audited.cluster.kubeconfig)) as other:
        for _, tool, arguments, _ in QUESTIONS:
            other.ask(tool, **arguments)
    asked = audit.read(audited.log)[before:]
    assert {item.verb for item in asked} == {"get", "list", "watch"}
    assert {item.resource for item in asked if item.verb == "list"} >= {"pods", "resourceclaims"}


@pytest.mark.parametrize(
    ("tool", "arguments", "status"),
    [
        ("explain", {"objects": ["pod/absent"]}, "not found"),
        ("explain", {}, "wrong arguments"),
        ("explain", {"all_namespaces": True, "namespace": "team"}, "wrong arguments"),
        ("explain", {"objects": ["pod"]}, "wrong arguments"),
        ("explain", {"objects": ["pod/a"], "fix": True}, "wrong arguments"),
        ("doctor", {"fix": True, "yes": True}, "wrong arguments"),
        ("devices", {"names": ["absent"]}, "not found"),
        ("devices", {"fields": "colour=red"}, "wrong arguments"),
        ("history", {"device": 5}, "wrong arguments"),
        ("lint", {}, "wrong arguments"),
        ("delete", {"objects": ["pod/train"]}, "wrong arguments"),
        ("more", {"cursor": "1:0:99999999999"}, "wrong arguments"),
        ("more", {"cursor": "999999:0:0"}, "wrong arguments"),
    ],
)
def test_errors_say_what_is_wrong(
    tool: str, arguments: dict[str, Any], status: str, helper: Assistant
) -> None:
    answer = helper.ask(tool, **arguments)
    assert answer.is_error
    assert answer.envelope["status"] == status
    assert answer.document["message"]


def test_a_cluster_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with assistant.started("--kubeconfig", str(tmp_path / "absent")) as alone:
        answer = alone.ask("doctor")
        assert answer.envelope["status"] == "cluster unreachable or access denied"
        found = alone.ask("cel", expression=HOPPER, against_cluster=False)
        assert not found.is_error


def test_a_snapshot_is_read_instead_of_a_cluster(audited: Audited, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(audited.cluster.dray("snapshot").stdout)
    with assistant.started("--against", str(snapshot)) as offline:
        assert offline.whole("devices") == audited.json("get", "devices")
        printed = run("explain", "pod/train", "--against", str(snapshot), "-o", "json")
        assert offline.whole("explain", objects=["pod/train"])["summary"] in printed.stdout
        refused = offline.ask("history", device="gpu-0/gpu-1")
        assert refused.document["message"].startswith("history needs a cluster")
