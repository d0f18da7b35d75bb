"""PodTemplate and ReplicationController as clients see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.wire import serving
from tests.wire.serving import Api

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}]},
}


async def rows(api: Api, url: str) -> list[list[Any]]:
    table = (await api("GET", url, accept=TABLE)).json
    names = [column["name"] for column in table["columnDefinitions"]]
    return [names, *(row["cells"] for row in table["rows"])]


def test_templates_of_pods(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}}
        made = await api("POST", TEMPLATES, {**body, "template": TEMPLATE})
        assert made.status == 201
        assert made.json["metadata"]["generation"] == 1
        assert made.json["template"]["spec"]["restartPolicy"] == "Always"
        labelled = await api(
            "PATCH",
            f"{TEMPLATES}/a",
            {"metadata": {"labels": {"x": "y"}}},
            content_type="application/merge-patch+json",
        )
        assert labelled.json["metadata"]["generation"] == 1
        changed = await api(
            "PATCH",
            f"{TEMPLATES}/a",
            {"template": {"metadata": {"labels": {"b": "c"}}}},
            content_type="application/merge-patch+json",
        )
        assert changed.json["metadata"]["generation"] == 2
        assert await rows(api, TEMPLATES) == [
            ["Name", "Containers", "Images", "Pod Labels"],
            ["a", "c,d", "i:1,j:2", "app=a,b=c"],
        ]
        bad = {**TEMPLATE, "spec": {"containers": []}}
        refused = await api("POST", TEMPLATES, {**body, "template": bad})
        assert refused.status == 422
        assert refused.json["details"]["causes"][0]["field"] == "template.spec.containers"
        deleted = await api("DELETE", f"{TEMPLATES}/a")
        assert deleted.json["kind"] == "PodTemplate"

    serving.with_api(conversation, tmp_path)


def test_controllers_have_columns_and_a_scale(tmp_path: Path) -> None:
    async def conversation(api: Api) -> None:
        body = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"}}
        made = await api("POST", CONTROLLERS, {**body, "spec": {"template": TEMPLATE}})
        assert made.status == 201
        assert made.json["metadata"]["labels"] == {"app": "a"}
        scale = (await api("GET", f"{CONTROLLERS}/a/scale")).json
        assert scale["status"] == {"replicas": 0, "selector": "app=a"}
        scale["spec"]["replicas"] = 3
        assert (await api("PUT", f"{CONTROLLERS}/a/scale", scale)).status == 200
        status = {**made.json, "status": {"replicas": 2, "readyReplicas": 1}}
        del status["metadata"]["resourceVersion"]
        assert (await api("PUT", f"{CONTROLLERS}/a/status", status)).status == 200
        columns, cells = await rows(api, CONTROLLERS)
        assert columns == [
            *("Name", "Desired", "Current", "Ready", "Age"),
            *("Containers", "Images", "Selector"),
        ]
        assert [*cells[:4], *cells[5:]] == ["a", 3, 2, 1, "c,d", "i:1,j:2", "app=a"]
        status["status"]["readyReplicas"] = 5
        refused = await api("PUT", f"{CONTROLLERS}/a/status", status)
        assert refused.json["details"]["causes"][0]["field"] == "status.readyReplicas"

    serving.with_api(conversation, tmp_path)


BATCH = "/apis/batch/v1/namespaces/default/jobs"
DAEMONS = "/apis/apps/v1/namespaces/default/daemonsets"
ONE_CONTAINER = {"containers": [{"name": "c", "image": "i:1"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (BATCH, {"spec": {"template": {"spec": {**ONE_CONTAINER, "restartPolicy": "Never"}}}}),
        (CONTROLLERS, {"spec": {"template": TEMPLATE}}),
        (DAEMONS, {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}}),
    ],
)
def test_an_update_of_the_status_without_labels_gives_the_default_ones(
    path: str, body: dict[str, Any], tmp_path: Path
) -> None:
    """So an update with what was read changes nothing."""

    async def conversation(api: Api) -> None:
        made = await api("POST", path, {**body, "metadata": {"name": "a", "labels": {"x": "y"}}})
        assert made.status == 201, made.json
        for sent in (body, {}):
            status = await api("PUT", f"{path}/a/status", {**sent, "metadata": {"name": "a"}})
            assert status.status == 200, status.json
            assert (status.json["metadata"].get("labels") or {}).get("x") is None
            read = await api("GET", f"{path}/a")
            assert (await api("PUT", f"{path}/a", read.body)).body == read.body

    serving.with_api(conversation, tmp_path)
