"""Checks of a written object against the request and the stored object: name, uid, revision."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api import errors
from dray.api.formats import gotext
from dray.api.ids import GroupKind, GroupResource
from dray.api.strategies import kind_strategies
from dray.api.types.meta import JsonObject
from dray.apiserver.access.rbac import Attributes, Authorize
from dray.apiserver.request.call import Call
from dray.apiserver.storage import store_keys


def check_may_create(call: Call, authorize: Authorize) -> None:
    """Raise Forbidden (403) unless the user of an update or apply may also create the object."""
    info = call.info
    attributes = Attributes(
        "create", info.group, info.resource, namespace=info.namespace, name=info.name
    )
    refusal = authorize(call.user, attributes)
    if refusal is not None:
        raise errors.forbidden(store_keys.group_resource(call.kind), info.name, refusal)


def check_namespace(call: Call, document: JsonObject) -> None:
    metadata = document["metadata"]
    if not call.kind.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", call.namespace) not in ("", call.namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = call.namespace


def check_name(call: Call, document: JsonObject) -> None:
    name = (document.get("metadata") or {}).get("name")
    if not name:
        raise errors.bad_request(
            "the name of the object must be set: metadata.name: Required value: name is required"
        )
    check_name_of_url(call, name)


def check_name_of_url(call: Call, name: str) -> None:
    if name != call.info.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


def check_identity(call: Call, patched: JsonObject, old: JsonObject) -> None:
    """Raise 400 or 422 if a patch changed the name or the uid."""
    metadata = patched.get("metadata") or {}
    name, uid = metadata.get("name"), metadata.get("uid")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({call.info.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    check_name_of_url(call, name)
    if uid and uid != old["metadata"]["uid"]:
        message = f"Invalid value: {gotext.quote(uid)}: field is immutable"
        cause = errors.Cause("metadata.uid", "FieldValueInvalid", message)
        raise errors.invalid(store_keys.group_kind(call.kind), call.info.name, [cause])


def check_revision_is_named(call: Call, document: JsonObject) -> None:
    if document["metadata"].get("resourceVersion", "0") not in ("", "0"):
        return
    if call.info.version in kind_strategies.of(call.kind).revision_is_named_in:
        message = "Invalid value: 0: must be specified for an update"
        cause = errors.Cause("metadata.resourceVersion", "FieldValueInvalid", message)
        resource = GroupKind(call.kind.group, call.kind.plural)
        raise errors.invalid(resource, call.info.name, [cause])


def check_preconditions(call: Call, new: JsonObject, old: JsonObject) -> bool:
    """Return whether the client named a revision. Raises 409 if it is not the current one."""
    expected, current = new["metadata"], old["metadata"]
    resource = store_keys.group_resource(call.kind)
    check_metadata(resource, call.info.name, current, {"uid": expected.get("uid")})
    revision = expected.get("resourceVersion")
    if not revision or revision == "0":
        return False
    if revision != current["resourceVersion"]:
        raise errors.conflict(resource, call.info.name)
    return True


def check_metadata(
    resource: GroupResource, name: str, metadata: JsonObject, expected: Mapping[str, str | None]
) -> None:
    """Raise 409 if the uid or the revision is not the expected one, where one is expected."""
    for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        value = expected.get(field)
        if value and value != metadata[field]:
            raise errors.conflict(
                resource,
                name,
                f"Precondition failed: {words} in precondition: {value}, "
                f"{words} in object meta: {metadata[field]}",
            )
