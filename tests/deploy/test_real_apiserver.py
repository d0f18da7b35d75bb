"""A real kube-apiserver takes every object of the charts, as `helm install` sends it."""

from __future__ import annotations

import asyncio
import itertools
import re
from pathlib import Path

import msgspec
import pytest

from dray.api.http_messages import Request
from dray.api.types.meta import JsonObject
from dray.client import kubeconfig
from dray.client.api_client import Client
from dray.client.rest import RestTransport
from tests import kube_apiserver
from tests.deploy import helm, installing
from tests.deploy.helm import NAMESPACE, VERSIONS
from tests.deploy.test_charts import VALUES

OF_THE_OPERATOR = "monitoring.coreos.com/v1"
"""Kinds that a cluster has only with the Prometheus operator."""


def path_of(body: JsonObject) -> str:
    version = body["apiVersion"]
    plural = re.sub("ys$", "ies", f"{body['kind'].lower()}s").replace("classs", "classes")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = body["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


async def accept(client: Client, body: JsonObject, *query: tuple[str, str]) -> None:
    options = (("fieldValidation", "Strict"), *query)
    content = msgspec.json.encode(body)
    answer = await client.raw(Request("POST", path_of(body), options, installing.JSON, content))
    assert answer.status == 201, (body["kind"], answer.body)
    assert "warning" not in answer.headers, answer.headers


@pytest.mark.slow
def test_it_takes_everything(tmp_path: Path) -> None:
    async def run(config: Path) -> None:
        async with RestTransport(kubeconfig.load(config)) as transport:
            client = Client(transport)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await accept(client, namespace)
            for chart, several in VALUES.items():
                for values, version in itertools.product(several, VERSIONS):
                    for body in helm.documents(chart, values, version):
                        if body["apiVersion"] != OF_THE_OPERATOR:
                            await accept(client, body, ("dryRun", "All"))

    # As clusters for containers with hardware are set up, by kubeadm among others.
    options = ("--allow-privileged",)
    with kube_apiserver.running(tmp_path, options=options) as server:
        asyncio.run(run(server.kubeconfig(kube_apiserver.ADMIN)))
