import json
from collections.abc import Iterator
from typing import Any

import pytest

from dray.api import kinds
from dray.api.schema import field_types, openapi, openapi_schemas

GROUP_VERSIONS = [
    (group, version) for group, versions in kinds.VERSIONS_BY_GROUP.items() for version in versions
]
GVK = "x-kubernetes-group-version-kind"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def patch_of(document: dict[str, Any], gvk: dict[str, str]) -> dict[str, Any]:
    for path in document["paths"].values():
        if "patch" in path and path["patch"][GVK] == gvk:
            operation: dict[str, Any] = path["patch"]
            return operation
    raise AssertionError(f"no patch of {gvk}")


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_every_reference_in_a_document_resolves(group: str, version: str) -> None:
    document = openapi.document(group, version)
    defined = {
        openapi_schemas.REFERENCE_PREFIX + name for name in document["components"]["schemas"]
    }
    assert set(references(document)) - defined == set()


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_no_operation_has_an_empty_list_of_parameters(group: str, version: str) -> None:
    # Go's clients read it as none, so that the document would not survive a round trip.
    for path in openapi.document(group, version)["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict):
                assert operation.get("parameters") != []


def test_the_index_leads_to_every_document_by_its_hash() -> None:
    paths = openapi.index()["paths"]
    assert len(paths) == len(GROUP_VERSIONS)
    entry = paths["apis/resource.k8s.io/v1"]
    digest = openapi.encoded("resource.k8s.io", "v1").hash
    assert entry == {"serverRelativeURL": f"/openapi/v3/apis/resource.k8s.io/v1?hash={digest}"}
    assert "api/v1" in paths
    assert len(digest) == 128


def test_an_encoded_document_is_the_document() -> None:
    data = openapi.encoded("resource.k8s.io", "v1").data
    assert json.loads(data) == openapi.document("resource.k8s.io", "v1")


@pytest.mark.parametrize(
    "kind", [kind for kind in kinds.KINDS if "patch" in kind.verbs], ids=lambda kind: kind.kind
)
def test_kubectl_finds_field_validation_for_every_kind(kind: kinds.Kind) -> None:
    for version in kind.versions:
        gvk = {"group": kind.group, "kind": kind.kind, "version": version}
        operation = patch_of(openapi.document(kind.group, version), gvk)
        names = {
            parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"
        }
        assert {"fieldValidation", "dryRun", "force"} <= names


def test_every_kind_has_a_schema_that_says_which_kind_it_is() -> None:
    for group, version in GROUP_VERSIONS:
        schemas = openapi.document(group, version)["components"]["schemas"]
        for kind in kinds.in_group_version(group, version):
            component = openapi_schemas.component(kind.in_version(version).schema_type)
            assert schemas[component][GVK] == [
                {"group": group, "kind": kind.kind, "version": version}
            ]


def test_paths_are_those_of_the_kind_and_its_subresources() -> None:
    paths = openapi.document("resource.k8s.io", "v1")["paths"]
    prefix = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    assert {
        path: sorted(paths[path].keys() - {"parameters"}) for path in paths if "claims" in path
    } == {
        prefix: ["delete", "get", "post"],
        f"{prefix}/{{name}}": ["delete", "get", "patch", "put"],
        f"{prefix}/{{name}}/status": ["get", "patch", "put"],
        "/apis/resource.k8s.io/v1/resourceclaims": ["get"],
    }


@pytest.mark.parametrize(
    ("group", "path", "method", "identifier"),
    [
        ("", "/api/v1/namespaces/{namespace}/pods/{name}", "get", "readCoreV1NamespacedPod"),
        ("", "/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"),
        ("", "/api/v1/nodes", "delete", "deleteCoreV1CollectionNode"),
        (
            "",
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connectCoreV1PostNamespacedPodExec",
        ),
        (
            "",
            "/api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "createCoreV1NamespacedPodEviction",
        ),
        (
            "apps",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "put",
            "replaceAppsV1NamespacedDeploymentScale",
        ),
        (
            "rbac.authorization.k8s.io",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}",
            "patch",
            "patchRbacAuthorizationV1ClusterRole",
        ),
        (
            "authorization.k8s.io",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "post",
            "createAuthorizationV1SelfSubjectAccessReview",
        ),
    ],
)
def test_operations_have_the_names_of_kubernetes(
    group: str, path: str, method: str, identifier: str
) -> None:
    assert openapi.document(group, "v1")["paths"][path][method]["operationId"] == identifier


def test_operation_names_are_unique_in_a_document() -> None:
    for group, version in GROUP_VERSIONS:
        identifiers = [
            operation["operationId"]
            for path in openapi.document(group, version)["paths"].values()
            for method, operation in path.items()
            if method != "parameters"
        ]
        assert len(identifiers) == len(set(identifiers))


def test_path_parameters_are_declared() -> None:
    item = openapi.document("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    declared = {parameter["name"] for parameter in item["parameters"] if parameter["in"] == "path"}
    assert declared == {"namespace", "name"}


def test_a_structure_is_described_as_kubernetes_does() -> None:
    definition = openapi_schemas.definition("resource.v1.ResourceClaimStatus")
    assert definition["type"] == "object"
    devices = dict(definition["properties"]["devices"])
    assert devices.pop("description").startswith("Devices contains the status")
    assert devices == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.resource.v1.AllocatedDeviceStatus"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["driver", "device", "pool", "shareID"],
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "resource.v1.ResourcePool.generation",
            {"type": "integer", "format": "int64", "default": 0},
        ),
        ("resource.v1.ExactDeviceRequest.count", {"type": "integer", "format": "int64"}),
        (
            "resource.v1.ExactDeviceRequest.allocationMode",
            {"type": "string", "enum": ["All", "ExactCount"]},
        ),
        (
            "resource.v1.ResourceClaim.spec",
            {
                "allOf": [
                    {"$ref": "#/components/schemas/io.k8s.api.resource.v1.ResourceClaimSpec"}
                ],
                "default": {},
            },
        ),
        (
            "resource.v1.DeviceCapacity.value",
            {
                "allOf": [
                    {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}
                ]
            },
        ),
        (
            "core.v1.Secret.data",
            {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        ),
        ("core.v1.ContainerPort.protocol", {"default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
        ("core.v1.PodSpec.nodeSelector", {"x-kubernetes-map-type": "atomic"}),
        ("meta.v1.ObjectMeta.finalizers", {"x-kubernetes-patch-strategy": "merge"}),
    ],
)
def test_fields_are_described_as_kubernetes_does(path: str, expected: dict[str, Any]) -> None:
    owner, _, field = path.rpartition(".")
    found = openapi_schemas.definition(owner)["properties"][field]
    assert {key: found[key] for key in expected} == expected
    assert found["description"]


def test_possible_values_are_part_of_the_description() -> None:
    field = field_types.fields("resource.v1.ExactDeviceRequest")["allocationMode"]
    text = openapi_schemas.description("resource.v1.ExactDeviceRequest", field)
    assert text.endswith('\n\n\nPossible enum values:\n - `"All"`\n - `"ExactCount"`')
