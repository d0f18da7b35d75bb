"""lightkube against a real socket."""

from __future__ import annotations

from typing import Any

import pytest
from lightkube import Client, KubeConfig
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.types import CascadeType, PatchType

from tests.clients import manifests
from tests.clients.serving import Served

NAMESPACE = "default"


@pytest.fixture
def client(served: Served) -> Any:
    configuration = KubeConfig.from_file(str(served.kubeconfig))
    made = Client(config=configuration, namespace=NAMESPACE, field_manager="test")
    yield made
    made.close()


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data)


def claim(name: str, **labels: str) -> Any:
    return ResourceClaim.from_dict(manifests.claim(name, labels or None))


def test_create_list_and_delete(client: Any) -> None:
    client.create(config_map("a", k="v"))
    assert client.get(ConfigMap, "a").data == {"k": "v"}
    assert "a" in [each.metadata.name for each in client.list(ConfigMap)]
    client.delete(ConfigMap, "a")
    with pytest.raises(ApiError) as caught:
        client.get(ConfigMap, "a")
    assert caught.value.status.code == 404
    assert caught.value.status.reason == "NotFound"


def test_claims_have_their_types(client: Any) -> None:
    created = client.create(claim("typed"))
    assert created.spec.devices.requests[0].exactly.allocationMode == "ExactCount"
    created.metadata.labels = {"app": "replaced"}
    assert client.replace(created).metadata.labels == {"app": "replaced"}


def test_apply_twice_changes_nothing(client: Any) -> None:
    first = client.apply(config_map("b", k="v"))
    second = client.apply(config_map("b", k="v"))
    assert first.metadata.resourceVersion == second.metadata.resourceVersion


def test_apply_meets_what_others_own(client: Any) -> None:
    client.apply(config_map("owned", k="first"))
    with pytest.raises(ApiError) as refused:
        client.apply(config_map("owned", k="second"), field_manager="other")
    assert refused.value.status.code == 409
    forced = client.apply(config_map("owned", k="second"), field_manager="other", force=True)
    assert forced.data == {"k": "second"}


@pytest.mark.parametrize(
    ("patch_type", "patch"),
    [
        (PatchType.STRATEGIC, {"metadata": {"labels": {"patched": "yes"}}}),
        (PatchType.MERGE, {"metadata": {"labels": {"patched": "yes"}}}),
        (PatchType.JSON, [{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}]),
        (
            PatchType.APPLY,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"labels": {"patched": "yes"}},
            },
        ),
    ],
    ids=lambda value: value.name if isinstance(value, PatchType) else "",
)
def test_patches(client: Any, patch_type: PatchType, patch: Any) -> None:
    name = f"patched-{patch_type.name.lower()}"
    client.create(claim(name))
    patched = client.patch(ResourceClaim, name, patch, patch_type=patch_type)
    assert patched.metadata.labels == {"app": "test", "patched": "yes"}


def test_a_status_is_patched_where_it_is(client: Any) -> None:
    client.create(claim("status"))
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    patched = client.patch(ResourceClaim.Status, "status", status, patch_type=PatchType.MERGE)
    assert patched.status.allocation.devices.results[0].device == "gpu-0"


def test_a_watch_that_is_cut_resumes_without_a_gap(served: Served, client: Any) -> None:
    client.create(claim("resumed-0", app="resume"))
    seen = []
    for kind, item in client.watch(ResourceClaim, labels={"app": "resume"}):
        seen.append((kind, item.metadata.name))
        if len(seen) == 3:
            break
        served.cut()
        client.create(claim(f"resumed-{len(seen)}", app="resume"))
    assert seen == [("ADDED", f"resumed-{number}") for number in range(3)]


def test_wait_for_a_condition(served: Served, client: Any) -> None:
    client.create(Pod.from_dict(manifests.pod("waiting")))
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"conditions": [condition]}}
    client.patch(Pod.Status, "waiting", status, patch_type=PatchType.STRATEGIC)
    ready = client.wait(Pod, "waiting", for_conditions=["Ready"])
    assert ready.metadata.name == "waiting"


def test_selectors_pages_and_collections(client: Any) -> None:
    client.create(Namespace(metadata=ObjectMeta(name="pages")))
    for number in range(5):
        client.create(claim(f"page-{number}", app="page"), namespace="pages")
    found = client.list(ResourceClaim, namespace="pages", labels={"app": "page"}, chunk_size=2)
    assert [each.metadata.name for each in found] == [f"page-{number}" for number in range(5)]
    one = client.list(ResourceClaim, namespace="pages", fields={"metadata.name": "page-3"})
    assert [each.metadata.name for each in one] == ["page-3"]
    client.delete(ResourceClaim, "page-0", namespace="pages", cascade=CascadeType.BACKGROUND)
    client.deletecollection(ResourceClaim, namespace="pages")
    assert list(client.list(ResourceClaim, namespace="pages")) == []


def test_exec_is_refused_cleanly(client: Any) -> None:
    client.create(Pod.from_dict(manifests.pod("nowhere")))
    with pytest.raises(Exception, match="400 Bad Request"):
        client.exec("nowhere", command=["true"], stdout=True)


def test_system_namespaces_exist(client: Any) -> None:
    names = {each.metadata.name for each in client.list(Namespace)}
    assert {"default", "kube-system"} <= names
