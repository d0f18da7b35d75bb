"""The official Python client against a real socket: what it asks, answered as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, dynamic, stream, watch
from kubernetes.client.exceptions import ApiException

from tests.clients import manifests
from tests.clients.serving import Served

NAMESPACE = "default"
# None of them says what its arguments are.
new_watch: Any = watch.Watch
new_dynamic_client: Any = dynamic.DynamicClient
new_client: Any = config.new_client_from_config

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def api(served: Served) -> Iterator[client.ApiClient]:
    with new_client(str(served.kubeconfig)) as made:
        yield made


@pytest.fixture(scope="module")
def core(api: client.ApiClient) -> Any:
    return client.CoreV1Api(api)


@pytest.fixture(scope="module")
def resource(api: client.ApiClient) -> Any:
    return client.ResourceV1Api(api)


def create(resource: Any, name: str, **labels: str) -> Any:
    body = manifests.claim(name, labels or None)
    return resource.create_namespaced_resource_claim(NAMESPACE, body)


def test_version_and_discovery(api: client.ApiClient) -> None:
    assert client.VersionApi(api).get_code().git_version.startswith("v1.37")
    groups = client.ApisApi(api).get_api_versions().groups
    assert "resource.k8s.io" in {group.name for group in groups}
    served = client.ResourceV1Api(api).get_api_resources().resources
    assert {"resourceclaims", "resourceclaims/status"} <= {each.name for each in served}


def test_an_object_is_created_read_and_listed_with_its_types(
    resource: Any,
) -> None:
    created = create(resource, "typed", app="typed")
    assert type(created).__name__ == "ResourceV1ResourceClaim"
    assert created.spec.devices.requests[0].exactly.count == 1, "the default is filled in"
    read = resource.read_namespaced_resource_claim("typed", NAMESPACE)
    assert read.metadata.uid == created.metadata.uid
    listed = resource.list_namespaced_resource_claim(NAMESPACE, label_selector="app=typed")
    assert [item.metadata.name for item in listed.items] == ["typed"]


def test_an_object_is_replaced_where_nobody_was_faster(resource: Any) -> None:
    first = create(resource, "replaced")
    first.metadata.labels = {"app": "second"}
    second = resource.replace_namespaced_resource_claim("replaced", NAMESPACE, first)
    assert second.metadata.labels == {"app": "second"}
    with pytest.raises(ApiException) as refused:
        resource.replace_namespaced_resource_claim("replaced", NAMESPACE, first)
    assert refused.value.status == 409


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        pytest.param(None, {"metadata": {"labels": {"patched": "yes"}}}, id="by default strategic"),
        pytest.param(
            "application/strategic-merge-patch+json",
            {"metadata": {"labels": {"patched": "yes"}}},
            id="strategic",
        ),
        pytest.param(
            "application/merge-patch+json",
            {"metadata": {"labels": {"patched": "yes"}}},
            id="merge",
        ),
        pytest.param(
            "application/json-patch+json",
            [{"op": "add", "path": "/metadata/labels/patched", "value": "yes"}],
            id="json",
        ),
    ],
)
def test_patches(resource: Any, content_type: str | None, body: Any, request: Any) -> None:
    name = f"patched-{request.node.callspec.id.replace(' ', '-')}"
    create(resource, name)
    options = {"_content_type": content_type} if content_type else {}
    patched = resource.patch_namespaced_resource_claim(name, NAMESPACE, body, **options)
    assert patched.metadata.labels == {"app": "test", "patched": "yes"}


def test_server_side_apply_owns_fields_and_meets_conflicts(
    resource: Any,
) -> None:
    def apply(manager: str, value: str, **options: Any) -> Any:
        body = manifests.claim("applied", {"owner": value})
        return resource.patch_namespaced_resource_claim(
            "applied",
            NAMESPACE,
            body,
            field_manager=manager,
            _content_type="application/apply-patch+yaml",
            **options,
        )

    applied = apply("first", "a")
    assert [(field.manager, field.operation) for field in applied.metadata.managed_fields] == [
        ("first", "Apply")
    ]
    with pytest.raises(ApiException) as refused:
        apply("second", "b")
    assert refused.value.status == 409
    assert "FieldManagerConflict" in str(refused.value.body)
    assert apply("second", "b", force=True).metadata.labels == {"owner": "b"}


def test_status_is_a_subresource(resource: Any) -> None:
    create(resource, "status")
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}
    body = {"status": {"allocation": {"devices": {"results": [result]}}}}
    ignored = resource.patch_namespaced_resource_claim("status", NAMESPACE, body)
    assert ignored.status.allocation is None
    done = resource.patch_namespaced_resource_claim_status("status", NAMESPACE, body)
    assert done.status.allocation.devices.results[0].device == "gpu-0"


def test_refusals_carry_the_reason(resource: Any) -> None:
    with pytest.raises(ApiException) as missing:
        resource.read_namespaced_resource_claim("missing", NAMESPACE)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    broken = manifests.claim("Not_A_Name")
    with pytest.raises(ApiException) as invalid:
        resource.create_namespaced_resource_claim(NAMESPACE, broken)
    assert invalid.value.status == 422
    assert "RFC 1123" in str(invalid.value.body)


def start(core: Any, name: str, app: str) -> None:
    body = manifests.pod(name)
    body["metadata"]["labels"] = {"app": app}
    core.create_namespaced_pod(NAMESPACE, body)


def test_a_watch_tells_what_happens(core: Any) -> None:
    start(core, "watched", "watch")
    seen = []
    watcher: Any = new_watch()
    for event in watcher.stream(
        core.list_namespaced_pod, NAMESPACE, label_selector="app=watch", timeout_seconds=20
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            start(core, "watched-2", "watch")
        elif len(seen) == 2:
            core.delete_namespaced_pod("watched", NAMESPACE, grace_period_seconds=0)
        else:
            watcher.stop()
    assert seen == [("ADDED", "watched"), ("ADDED", "watched-2"), ("DELETED", "watched")]


def test_a_watch_that_is_cut_resumes_without_a_gap(served: Served, core: Any) -> None:
    """The client remembers the revision; what happened while it was away is told afterwards."""
    start(core, "resumed-0", "resume")
    watcher: Any = new_watch()
    seen = []
    for event in watcher.stream(core.list_namespaced_pod, NAMESPACE, label_selector="app=resume"):
        seen.append(event["object"].metadata.name)
        if len(seen) < 3:
            served.cut()
            start(core, f"resumed-{len(seen)}", "resume")
        else:
            watcher.stop()
    assert seen == ["resumed-0", "resumed-1", "resumed-2"]


def test_deletion_and_collections(resource: Any) -> None:
    for number in range(3):
        create(resource, f"gone-{number}", app="gone")
    deleted = resource.delete_namespaced_resource_claim(
        "gone-0", NAMESPACE, propagation_policy="Foreground"
    )
    assert deleted.metadata.name == "gone-0"
    resource.delete_collection_namespaced_resource_claim(NAMESPACE, label_selector="app=gone")
    left = resource.list_namespaced_resource_claim(NAMESPACE, label_selector="app=gone")
    assert [item.metadata.name for item in left.items if not item.metadata.finalizers] == []


def test_pages(resource: Any) -> None:
    for number in range(5):
        create(resource, f"page-{number}", app="page")
    found, token = [], None
    while True:
        page = resource.list_namespaced_resource_claim(
            NAMESPACE, label_selector="app=page", limit=2, _continue=token
        )
        found += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert found == [f"page-{number}" for number in range(5)]


def test_exec_is_refused_cleanly(core: Any) -> None:
    """No node runs the pod: the client learns it at once, from a status and not from a hang."""
    core.create_namespaced_pod(NAMESPACE, manifests.pod("nowhere"))
    with pytest.raises(ApiException) as refused:
        stream.stream(
            core.connect_get_namespaced_pod_exec,
            "nowhere",
            NAMESPACE,
            command=["true"],
            stdout=True,
            _request_timeout=10,
        )
    assert "Handshake status 4" in str(refused.value) or "Handshake status 5" in str(refused.value)


def test_the_dynamic_client_finds_kinds_by_discovery(api: client.ApiClient) -> None:
    kinds: Any = new_dynamic_client(api)
    classes = kinds.resources.get(api_version="resource.k8s.io/v1", kind="DeviceClass")
    assert not classes.namespaced
    created = classes.create(body=manifests.CLASS)
    assert created.metadata.generation == 1
    found = classes.get(name="gpu.example.com").to_dict()
    assert found["spec"] == manifests.CLASS["spec"]
    patched = classes.patch(
        body={"metadata": {"labels": {"a": "b"}}},
        name="gpu.example.com",
        content_type="application/merge-patch+json",
    )
    assert patched.metadata.labels.to_dict() == {"a": "b"}
    applied = classes.server_side_apply(
        body={**manifests.CLASS, "metadata": {"name": "gpu.example.com"}},
        name="gpu.example.com",
        field_manager="dynamic",
    )
    assert applied.metadata.name == "gpu.example.com"
    classes.delete(name="gpu.example.com")
    with pytest.raises(dynamic.exceptions.NotFoundError):
        classes.get(name="gpu.example.com")


def test_old_versions_have_their_own_shape(api: client.ApiClient) -> None:
    old: Any = client.ResourceV1beta1Api(api)
    current: Any = client.ResourceV1Api(api)
    flat = {"name": "gpu", "deviceClassName": "gpu.example.com"}
    body = {"metadata": {"name": "old"}, "spec": {"devices": {"requests": [flat]}}}
    created = old.create_namespaced_resource_claim(NAMESPACE, body)
    assert created.spec.devices.requests[0].device_class_name == "gpu.example.com"
    new = current.read_namespaced_resource_claim("old", NAMESPACE)
    assert new.spec.devices.requests[0].exactly.device_class_name == "gpu.example.com"
