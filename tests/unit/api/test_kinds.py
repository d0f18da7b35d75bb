from collections import Counter

import pytest

from dray.api import kinds, table_columns
from dray.api.schema import field_types


def test_every_kind_has_a_schema_in_every_served_version() -> None:
    missing = [
        kind.in_version(version).schema_type
        for kind in kinds.KINDS
        for version in kind.versions
        if not field_types.has(kind.in_version(version).schema_type)
    ]
    assert missing == []


def test_every_stored_kind_has_a_list() -> None:
    missing = [
        f"{kind.in_version(version).schema_type}List"
        for kind in kinds.KINDS
        for version in kind.versions
        if kind.is_stored and not field_types.has(f"{kind.in_version(version).schema_type}List")
    ]
    assert missing == []


def test_no_two_kinds_share_a_path() -> None:
    paths = Counter(
        (kind.group, version, kind.plural) for kind in kinds.KINDS for version in kind.versions
    )
    assert [path for path, count in paths.items() if count > 1] == []


@pytest.mark.parametrize(
    ("version", "served"),
    [("v1", True), ("v1beta2", True), ("v1beta1", False), ("v1alpha3", True), ("v1alpha2", False)],
)
def test_device_taint_rules_are_not_in_v1beta1(version: str, served: bool) -> None:
    found = kinds.by_resource("resource.k8s.io", version, "devicetaintrules")
    assert (found is not None) is served


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("po", ("", "Pod")),
        ("pods", ("", "Pod")),
        ("Pod", ("", "Pod")),
        ("ev", ("", "Event")),
        ("events.events.k8s.io", ("events.k8s.io", "Event")),
        ("ResourceClaim", ("resource.k8s.io", "ResourceClaim")),
        ("resourceclaims.resource.k8s.io", ("resource.k8s.io", "ResourceClaim")),
        ("deploy", ("apps", "Deployment")),
    ],
)
def test_a_kind_is_found_by_any_of_its_names(name: str, kind: tuple[str, str]) -> None:
    found = kinds.by_name(name)
    assert found is not None
    assert (found.group, found.kind) == kind
    assert kinds.by_kind(*kind) is found


@pytest.mark.parametrize("name", ["", "gadgets", "pods.apps", "resourceclass"])
def test_a_name_that_no_kind_has_finds_nothing(name: str) -> None:
    assert kinds.by_name(name) is None


def test_versions_are_listed_stable_first_then_newest() -> None:
    assert kinds.VERSIONS_BY_GROUP["resource.k8s.io"] == ("v1", "v1beta2", "v1beta1", "v1alpha3")
    assert kinds.VERSIONS_BY_GROUP["scheduling.k8s.io"] == ("v1", "v1beta1")


# Recorded from a Kubernetes 1.37 API server.
@pytest.mark.parametrize(
    ("plural", "recorded"),
    [
        ("deviceclasses", "Yk2PTc1Ybxk="),
        ("devicetaintrules", "i+85+TcIKpA="),
        ("resourceclaims", "wgAZaHcZxUg="),
        ("resourceclaimtemplates", "TuzjC49aUfM="),
        ("resourceslices", "KsC072WgaEY="),
    ],
)
def test_the_storage_version_hash_is_that_of_kubernetes(plural: str, recorded: str) -> None:
    kind = kinds.by_resource("resource.k8s.io", "v1", plural)
    assert kind is not None
    assert kind.storage_version_hash == recorded


def test_both_event_kinds_are_stored_as_one() -> None:
    core, events = kinds.by_kind("", "Event"), kinds.by_kind("events.k8s.io", "Event")
    assert core is not None
    assert events is not None
    assert events.storage_version_hash == core.storage_version_hash


def test_kinds_of_a_group_version_come_by_plural_name() -> None:
    found = [kind.plural for kind in kinds.in_group_version("resource.k8s.io", "v1beta1")]
    assert found == ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("v1", ("", "v1")), ("resource.k8s.io/v1beta1", ("resource.k8s.io", "v1beta1"))],
)
def test_an_api_version_names_group_and_version(text: str, expected: tuple[str, str]) -> None:
    assert kinds.parse_api_version(text) == expected
    assert kinds.api_version(*expected) == text


def test_reviews_are_not_stored() -> None:
    stored = {kind.kind for kind in kinds.KINDS if kind.is_stored}
    assert {"Pod", "ResourceClaim"} <= stored
    assert not stored & {"Binding", "SelfSubjectAccessReview"}


def _all_columns() -> list[table_columns.Column]:
    tables = (*(kind.columns for kind in kinds.KINDS), table_columns.of_resource("scales"))
    return [column for table in tables for column in table]


def test_every_field_that_describes_a_column_exists() -> None:
    fields = {column.field for column in _all_columns() if column.field[0]}
    assert [path for path in fields if path[1] not in field_types.fields(path[0])] == []


def test_a_column_is_described_by_a_text_or_a_field_and_not_both() -> None:
    assert [column for column in _all_columns() if column.text and column.field[0]] == []


@pytest.mark.parametrize(
    ("name", "shown", "wide"),
    [
        ("resourceclaims", "NAME STATE AGE", ""),
        ("resourceslices", "NAME NODE DRIVER POOL AGE", ""),
        ("deviceclasses", "NAME AGE", ""),
        ("resourceclaimtemplates", "NAME AGE", ""),
        ("devicetaintrules", "NAME KEY VALUE EFFECT TIMEADDED AGE", ""),
        (
            "resourcepoolstatusrequests",
            "NAME DRIVER TOTAL AVAILABLE ALLOCATED UNAVAILABLE ERRORS POOLS STATUS COMPLETED",
            "",
        ),
        ("pods", "NAME READY STATUS RESTARTS AGE", "IP NODE NOMINATED-NODE READINESS-GATES"),
    ],
)
def test_tables_have_the_columns_of_kubectl(name: str, shown: str, wide: str) -> None:
    kind = kinds.by_name(name)
    assert kind is not None
    headers = {0: "", 1: ""}
    for column in kind.columns:
        headers[column.priority] += f" {column.name.upper().replace(' ', '-')}"
    assert (headers[0].strip(), headers[1].strip()) == (shown, wide)
