"""`dray lint --fix` never harms: whatever mistakes a manifest combines, in whatever layout."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dray.api import errors, features, kinds
from dray.api.http_messages import APPLY_PATCH, Request
from dray.cli.inputs import cluster_objects
from dray.cli.lint import rules
from dray.cli.lint.linter import Linter
from dray.client import api_client
from dray.testing.clusters import Cluster
from tests.cli.mistakes.table import FURTHER, KNOWN, Mistake

BLOCK = """\
# two GPUs
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpus   # its name
spec:
  spec:
    devices:
      requests:
      - name: gpu   # the request
        # any model
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2   # both
          selectors:
          - cel:
              expression: device.driver == "gpu.nvidia.com"
      constraints:
      - requests: [gpu]
        matchAttribute: gpu.nvidia.com/productName
---
# who uses them
apiVersion: v1
kind: Pod
metadata:
  name: train
spec:
  containers:
  - name: main   # trains
    image: busybox
    resources:
      claims:
      - name: gpu
        request: gpu
  resourceClaims:
  - name: gpu   # both of them
    resourceClaimTemplateName: gpus
"""
FLOW = """\
# two GPUs
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}   # its name
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 2}}]   # both
      constraints: [{requests: [gpu], matchAttribute: gpu.nvidia.com/productName}]
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers:
  - {name: main, image: busybox, resources: {claims: [{name: gpu, request: gpu}]}}   # trains
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]
"""
CHANGES = (
    ("resource.k8s.io/v1\n", "resource.k8s.io/v1beta1\n"),
    ("resource.k8s.io/v1\n", "resource.k8s.io/v1beta2\n"),
    ("resource.k8s.io/v1\n", "resource.k8s.io/v3\n"),
    ("resource.k8s.io/v1\n", "resources.k8s.io/v1\n"),
    ("kind: ResourceClaimTemplate", "kind: ResourceClaimtemplate"),
    ("kind: ResourceClaimTemplate", "kind: ResourceClaimTemplates"),
    ("deviceClassName", "deviceClasName"),
    ("exactly:", "exactely:"),
    ("        exactly:\n          device", "        exactly:\n        device"),
    ("count: 2", 'count: "2"'),
    ("count: 2", "count: 2.0"),
    ("count: 2", "cuont: 2"),
    ("count: 2", "count: 40"),
    ("count: 2", "count: 2, allocationMode: All"),
    ("device.driver ==", "device.driver ="),
    ("device.driver ==", "driver =="),
    ('== "gpu.nvidia.com"', "== gpu"),
    ('"gpu.nvidia.com"\n', '"gpu.nvidia.com" and true\n'),
    ("requests: [gpu]", "requests: [gpus]"),
    ("requests: [gpu]", "requests: gpu"),
    ("gpu.nvidia.com/productName", "productName"),
    ("gpu.nvidia.com/productName", "gpu.nvidia.com/product-name"),
    ("request: gpu\n", "request: gpus\n"),
    ("- name: gpu\n        request", "- name: gpus\n        request"),
    ("resourceClaimTemplateName: gpus", "resourceClaimTemplateName: gpu"),
    ("resourceClaimTemplateName: gpus", "resourceClaimName: gpus"),
    ("resourceClaimTemplateName: gpus", "resourceClaimTemplate: gpus"),
    ("  spec:\n    devices:", "  devices:"),
    ("    resources:\n      claims:", "    claims:"),
    ("      claims:\n", "      limits: {memory: 1GB}\n      claims:\n"),
    ("      - name: gpu   #", "        name: gpu   #"),
    ("          count", "\tcount"),
    ("  containers:", "  nodeSelecter: {a: b}\n  containers:"),
    ("    image: busybox", "    image:busybox"),
    ("  name: train\n", "  name: Train_1\n"),
    ("metadata: {name: gpus}", "metadata: {name: gpus, namespace: team}"),
)
ERROR = rules.Severity.ERROR
LINTER = Linter(features.DEFAULT, cluster_objects.from_fleet("h100"))


def manifest(base: str, chosen: list[tuple[str, str]]) -> str:
    for old, new in chosen:
        base = base.replace(old, new)
    return base


MANIFESTS = st.builds(
    manifest,
    st.sampled_from([BLOCK, FLOW]),
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4, unique=True),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster("h100", nodes=1) as running:
        running.apply({**kinds.NAMESPACE.type_meta, "metadata": {"name": "team"}})
        yield running


def fixed(text: str, *, also_unsafe: bool = False) -> str:
    ((_, result),), _ = LINTER.fixed([("m.yaml", text)], also_unsafe=also_unsafe)
    return result


def parsed(text: str) -> list[object] | None:
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return None


def accepted(cluster: Cluster, text: str) -> str:
    """Send the objects to the server as a dry run. Returns its complaint, or ""."""
    for document in parsed(text) or ():
        assert isinstance(document, dict)
        kind = kinds.served(kinds.parse_api_version(document["apiVersion"])[0], document["kind"])
        space = document["metadata"].get("namespace", "default") if kind.namespaced else ""
        path = api_client.object_path(kind, document["metadata"]["name"], space)
        query = (("fieldManager", "test"), ("dryRun", "All"), ("fieldValidation", "Strict"))
        body = yaml.safe_dump(document).encode()
        request = Request("PATCH", path, query, {"content-type": APPLY_PATCH}, body)
        try:
            asyncio.run(cluster.client().send(request))
        except errors.StatusError as error:
            return str(error)
    return ""


def check(cluster: Cluster, text: str) -> None:
    result = fixed(text)
    before, after = (LINTER.check([("m.yaml", item)]).findings for item in (text, result))
    if parsed(text) is not None:
        assert parsed(result) is not None
    assert set(re.findall(r" (#.*)", text)) <= set(re.findall(r" (#.*)", result))
    assert fixed(result) == result
    assert not any(item.fix is not None and item.fix.is_correction for item in after)
    hidden = any(rules.RULES[item.rule].hides for item in before)
    assert hidden or len(after) <= len(before)
    left = [item for item in after if item.severity is ERROR or item.rule == "admin-access"]
    if parsed(result) is not None and not left:
        assert accepted(cluster, result) == ""
    for item in left:
        assert item.advice or item.message


@pytest.mark.parametrize("mistake", [*KNOWN, *FURTHER], ids=lambda mistake: mistake.name)
def test_each_mistake_is_fixed_without_harm(cluster: Cluster, mistake: Mistake) -> None:
    check(cluster, mistake.text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=MANIFESTS)
@example(
    text=BLOCK.replace("resource.k8s.io/v1", "resources.k8s.io/v1").replace(
        "kind: ResourceClaimTemplate", "kind: ResourceClaimTemplates"
    )
)
def test_combined_mistakes_are_fixed_without_harm(cluster: Cluster, text: str) -> None:
    check(cluster, text)
