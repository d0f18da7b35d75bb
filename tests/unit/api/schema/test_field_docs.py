import pytest

from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_docs

CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")
POD = GroupVersionKind("", "v1", "Pod")


def test_a_field_is_explained_as_kubectl_does() -> None:
    assert field_docs.explain(CLAIM, ["spec"]) == (
        "GROUP:      resource.k8s.io\n"
        "KIND:       ResourceClaim\n"
        "VERSION:    v1\n"
        "\n"
        "FIELD: spec <ResourceClaimSpec>\n"
        "\n"
        "\n"
        "DESCRIPTION:\n"
        "    Spec describes what is being requested and how to configure it. The spec is\n"
        "    immutable.\n"
        "    ResourceClaimSpec defines what is being requested in a ResourceClaim and how\n"
        "    to configure it.\n"
        "    \n"
        "FIELDS:\n"
        "  devices\t<DeviceClaim>\n"
        "    Devices defines how to request devices.\n"
        "\n"
        "\n"
    )


def test_a_kind_without_group_has_no_group_line() -> None:
    assert field_docs.explain(POD).startswith("KIND:       Pod\nVERSION:    v1\n\nDESCRIPTION:\n")


def test_the_path_leads_through_lists_and_maps() -> None:
    text = field_docs.explain(CLAIM, ["spec", "devices", "requests", "exactly", "count"])
    assert "FIELD: count <integer>\n" in text
    assert "FIELDS:" not in text


def test_values_of_an_enum_are_listed() -> None:
    text = field_docs.explain(POD, ["spec", "restartPolicy"])
    assert "FIELD: restartPolicy <string>\nENUM:\n    Always\n    Never\n    OnFailure\n\n" in text


def test_summaries_show_types_required_fields_and_the_first_values() -> None:
    text = field_docs.explain(CLAIM, ["spec", "devices", "requests", "exactly"])
    assert "  deviceClassName\t<string> -required-\n" in text
    assert "  allocationMode\t<string>\n  enum: All, ExactCount\n    AllocationMode and" in text
    assert "  selectors\t<[]DeviceSelector>\n" in text
    pods = field_docs.explain(POD, ["spec", "affinity", "nodeAffinity"], recursive=True)
    assert "enum: DoesNotExist, Exists, Gt, In, ....\n" in pods


def test_recursion_shows_the_whole_tree_without_texts() -> None:
    text = field_docs.explain(CLAIM, recursive=True)
    assert "\n  spec\t<ResourceClaimSpec>\n    devices\t<DeviceClaim>\n      config\t" in text
    assert "          expression\t<string> -required-\n" in text


@pytest.mark.parametrize(
    "path",
    [
        ["nope"],
        ["spec", "nope"],
        ["metadata", "name", "nope"],
        ["spec", "devices", "requests", "0"],
    ],
)
def test_a_field_that_does_not_exist_is_named(path: list[str]) -> None:
    with pytest.raises(field_docs.UnknownField, match=f'field "{path[-1]}" does not exist'):
        field_docs.explain(CLAIM, path)


def test_words_longer_than_a_line_stand_alone() -> None:
    text = field_docs.explain(POD, ["metadata", "creationTimestamp"])
    assert "More info:\n    https://git.k8s.io/" in text
