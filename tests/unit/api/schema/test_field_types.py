import subprocess
import sys

import pytest
from tools import make_schema
from tools.go_types import AddedField

from dray.api.schema import field_types
from dray.api.schema.field_types import Omission, WireForm


def test_the_tables_are_up_to_date_with_the_installed_models() -> None:
    tables = make_schema.make_tables(make_schema.read_models())
    types = (make_schema.DESTINATION / "schema_types.json").read_text()
    texts = (make_schema.DESTINATION / "schema_texts.json").read_text()
    made = make_schema.render(tables.types), make_schema.render(tables.texts)
    is_current = (types, texts) == made
    assert is_current, "run: make generate"


def test_a_field_that_the_models_lack_can_be_added() -> None:
    added = {"resource.v1.ResourceClaimSpec": {"note": AddedField("str", "A note for people.")}}
    tables = make_schema.make_tables(make_schema.read_models(added))
    fields = tables.types["resource.v1.ResourceClaimSpec"]
    assert isinstance(fields, dict)
    assert fields["note"] == "string"
    assert tables.texts["resource.v1.ResourceClaimSpec"]["note"] == "A note for people."


def test_the_models_themselves_are_never_imported() -> None:
    use = "from dray.api.schema import field_types; field_types.fields('core.v1.Pod')"
    code = f"import sys; {use}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("lightkube")]


def test_every_field_has_a_type() -> None:
    for name in field_types.names():
        for field in field_types.fields(name).values():
            content = field.type.content
            assert content.form is not WireForm.STRUCT or field_types.has(content.name), (
                name,
                field,
            )


@pytest.mark.parametrize(
    ("path", "form", "go"),
    [
        ("resource.v1.ExactDeviceRequest.count", WireForm.INT64, "int64"),
        (
            "resource.v1.ExactDeviceRequest.allocationMode",
            WireForm.STRING,
            "v1.DeviceAllocationMode",
        ),
        ("resource.v1.Device.attributes", WireForm.MAP, "map[v1.QualifiedName]v1.DeviceAttribute"),
        ("resource.v1.DeviceClaim.requests", WireForm.LIST, "[]v1.DeviceRequest"),
        ("resource.v1beta1.DeviceCapacity.value", WireForm.QUANTITY, "resource.Quantity"),
        ("resource.v1alpha3.PoolStatus.totalDevices", WireForm.INT32, "int32"),
        ("core.v1.ResourceRequirements.limits", WireForm.MAP, "v1.ResourceList"),
        ("core.v1.ServicePort.targetPort", WireForm.INT_OR_STRING, "intstr.IntOrString"),
        ("core.v1.Event.eventTime", WireForm.MICRO_TIME, "v1.MicroTime"),
        ("core.v1.Secret.data", WireForm.MAP, "map[string][]uint8"),
        ("meta.v1.ObjectMeta.uid", WireForm.STRING, "types.UID"),
        ("meta.v1.ManagedFieldsEntry.fieldsV1", WireForm.FIELD_SET, "v1.FieldsV1"),
        ("resource.v1.OpaqueDeviceConfiguration.parameters", WireForm.RAW, "runtime.RawExtension"),
    ],
)
def test_fields_have_the_types_of_go(path: str, form: WireForm, go: str) -> None:
    owner, _, field = path.rpartition(".")
    found = field_types.fields(owner)[field].type
    assert (found.form, found.go) == (form, go)


def test_the_content_of_a_type_is_what_its_lists_and_maps_hold() -> None:
    requests = field_types.fields("resource.v1.DeviceClaim")["requests"].type
    assert requests.content.name == "resource.v1.DeviceRequest"
    assert requests.content.content is requests.content


@pytest.mark.parametrize(
    ("path", "is_pointer", "omission", "embedded"),
    [
        ("resource.v1.ExactDeviceRequest.adminAccess", True, Omission.WHEN_EMPTY, ""),
        ("resource.v1.ExactDeviceRequest.count", False, Omission.WHEN_EMPTY, ""),
        ("resource.v1.ExactDeviceRequest.deviceClassName", False, Omission.NEVER, ""),
        ("meta.v1.ObjectMeta.creationTimestamp", False, Omission.WHEN_ZERO, ""),
        ("core.v1.Volume.configMap", True, Omission.WHEN_EMPTY, "VolumeSource"),
        ("core.v1.Volume.name", False, Omission.NEVER, ""),
        ("core.v1.Pod.kind", False, Omission.WHEN_EMPTY, "TypeMeta"),
    ],
)
def test_fields_know_how_go_writes_them(
    path: str, is_pointer: bool, omission: Omission, embedded: str
) -> None:
    owner, _, name = path.rpartition(".")
    field = field_types.fields(owner)[name]
    assert (field.type.is_pointer, field.omission, field.embedded) == (
        is_pointer,
        omission,
        embedded,
    )


def test_required_fields_are_those_of_openapi() -> None:
    fields = field_types.fields("resource.v1.ResourceSliceSpec").values()
    assert {field.name for field in fields if field.is_required} == {"driver", "pool"}


def test_types_and_fields_have_texts() -> None:
    assert field_types.text("resource.v1.ResourceClaimSpec").startswith("ResourceClaimSpec defines")
    assert "The spec is immutable." in field_types.text("resource.v1.ResourceClaim", "spec")
    assert field_types.text("resource.v1.ResourceClaim", "nope") == ""


def test_a_type_that_is_not_in_the_schema_is_an_error() -> None:
    assert not field_types.has("resource.v1.ResourceClass")
    with pytest.raises(KeyError):
        field_types.fields("resource.v1.ResourceClass")


@pytest.mark.parametrize(
    ("wrapped", "text"),
    [
        pytest.param(["a" * 77, "bb"], f"{'a' * 77} bb", id="no room for the next word: one line"),
        pytest.param(["short.", "Next."], "short.\n\nNext.", id="room left: a new paragraph"),
        pytest.param(
            ["Values:", "  - a", "  - b"], "Values:\n  - a\n  - b", id="indented lines stay"
        ),
        pytest.param(["one", "", "two"], "one\n\ntwo", id="an empty line is a new paragraph"),
    ],
)
def test_wrapped_texts_become_paragraphs_again(wrapped: list[str], text: str) -> None:
    assert make_schema.unwrap(wrapped) == text
