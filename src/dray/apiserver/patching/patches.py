"""The four patch types behind one call, on documents in the client's version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api import errors, http_messages
from dray.api.conversion import decoding
from dray.api.formats import gotext
from dray.api.ids import GroupKind
from dray.api.types.meta import JsonObject
from dray.apiserver.patching import json_patch, server_side_apply, strategic_merge
from dray.apiserver.request import bodies, write_options
from dray.apiserver.request.bodies import BodyHooks
from dray.apiserver.request.call import Call
from dray.apiserver.request.write_options import WriteOptions

MEDIA_TYPES = (
    http_messages.JSON_PATCH,
    http_messages.MERGE_PATCH,
    http_messages.STRATEGIC_MERGE_PATCH,
    http_messages.APPLY_PATCH,
)

_COMPARED_LEVELS = 2
"""So much of an object is compared: `metadata` and `status`, and the members of these."""


class Patch:
    """A parsed patch. A call with the current document returns the one to store.

    A patch with `owns_fields` sets the managed fields itself.
    """

    def __init__(
        self, change: Callable[[JsonObject | None], JsonObject], *, owns_fields: bool
    ) -> None:
        self._change = change
        self.owns_fields = owns_fields

    def __call__(self, document: JsonObject | None) -> JsonObject:
        return self._change(document)


def parse(
    call: Call,
    media_type: str,
    options: WriteOptions,
    warnings: list[str],
    hooks: BodyHooks = bodies.NO_HOOKS,
) -> Patch:
    if media_type == http_messages.APPLY_PATCH:
        applied = _applied(call, options, warnings)
        hooks.transform(applied)
        return Patch(lambda live: _apply(call, live, applied, options), owns_fields=True)
    content = _json(call)
    change = {
        http_messages.JSON_PATCH: json_patch.json_patch,
        http_messages.MERGE_PATCH: _merge,
        http_messages.STRATEGIC_MERGE_PATCH: _strategic(call),
    }[media_type]

    def refused(result: JsonObject, why: object) -> errors.Invalid:
        is_strategic = media_type == http_messages.STRATEGIC_MERGE_PATCH
        return _refused(gotext.value(content) if is_strategic else _text(result), why)

    def patched(document: JsonObject | None) -> JsonObject:
        result = _attempt(change, document, content)
        if media_type == http_messages.JSON_PATCH:
            # Operations can nest what they find: the result may be deeper than the patch.
            bodies.refuse_deep(result)
        type_meta = {"kind": call.gvk.kind, "apiVersion": call.gvk.api_version}
        if (
            media_type != http_messages.STRATEGIC_MERGE_PATCH
            and not type_meta.items() <= result.items()
        ):
            raise refused(result, f"kind and apiVersion of a {call.gvk.kind} cannot be changed")
        result.update(type_meta)
        hooks.transform(result)
        try:
            return _decoded(call, document or {}, result, options, warnings)
        except bodies.TypeMismatch as error:
            raise refused(result, error) from error

    return Patch(patched, owns_fields=False)


def _decoded(
    call: Call,
    before: JsonObject,
    result: JsonObject,
    options: WriteOptions,
    warnings: list[str],
) -> JsonObject:
    """Return the result of a patch after the checks of a body. Raises TypeMismatch."""
    # What the patch did not change was checked when it was stored.
    touched = _touched(result, before, _COMPARED_LEVELS)
    body = bodies.decode_strict(touched, call.gvk, options.field_validation)
    warnings.extend(body.warnings)
    return result if body.document is touched else _known(result, touched, body.document)


def _touched(result: JsonObject, before: JsonObject, levels: int) -> JsonObject:
    """Return the members that are not those of before; of objects, to some depth, theirs."""
    touched: JsonObject = {}
    for key, value in result.items():
        old: Any = before.get(key)
        if value is old:
            continue
        is_compared = levels > 1 and isinstance(value, dict) and isinstance(old, dict)
        touched[key] = _touched(value, old, levels - 1) if is_compared else value
    return touched


def _known(result: JsonObject, touched: JsonObject, known: JsonObject) -> JsonObject:
    """Return the result less those of its `touched` members that are not `known`."""
    return {
        key: value
        if key not in touched
        else known[key]
        if touched[key] is value
        else _known(value, touched[key], known[key])
        for key, value in result.items()
        if key in known or key not in touched
    }


def _json(call: Call) -> Any:
    try:
        patch = msgspec.json.decode(call.request.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    bodies.refuse_deep_json(patch, call.request.body)
    return patch


def _merge(document: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        raise json_patch.PatchMalformed("a merge patch is an object")
    return json_patch.merge_patch(document, patch)


def _strategic(call: Call) -> Callable[[Any, Any], Any]:
    def merge(document: Any, patch: Any) -> Any:
        if not isinstance(patch, dict):
            raise json_patch.PatchMalformed("a strategic merge patch is an object")
        return strategic_merge.merge(document, patch, call.gvk.schema_type)

    return merge


def _refused(shown: str, why: object) -> errors.Invalid:
    message = f"Invalid value: {gotext.quote(shown)}: {why}"
    cause = errors.Cause("patch", "FieldValueInvalid", message)
    return errors.invalid(GroupKind("", ""), "", [cause])


def _text(document: JsonObject) -> str:
    return msgspec.json.encode(document, order="sorted").decode()


def _attempt(
    change: Callable[[Any, Any], Any], document: JsonObject | None, patch: Any
) -> JsonObject:
    try:
        result = change(document, patch)
    except json_patch.PatchMalformed as error:
        raise errors.bad_request(str(error)) from error
    except json_patch.PatchTooLarge as error:
        raise errors.request_entity_too_large(str(error)) from error
    except json_patch.PatchFailed as error:
        raise errors.Invalid(
            f"the server rejected our request due to an error in our request: {error}",
            errors.Details(),
        ) from error
    if not isinstance(result, dict):
        raise errors.bad_request("the patch makes something that is not an object")
    return result


def _applied(call: Call, options: WriteOptions, warnings: list[str]) -> JsonObject:
    """Return the applied configuration, from YAML or JSON."""
    try:
        document = bodies.yaml_or_json(call.request.body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("metadata", {}), dict):
        raise errors.bad_request("the applied configuration is not an object")
    bodies.refuse_deep_json(document, call.request.body)
    _report_repeated(call, document, options, warnings)
    return document


def _report_repeated(
    call: Call, document: JsonObject, options: WriteOptions, warnings: list[str]
) -> None:
    """Raise 400 for repeated fields, or warn of them, as `fieldValidation` says."""
    if options.field_validation == write_options.IGNORE:
        return
    problems = decoding.check(call.gvk.schema_type, document)
    repeated = decoding.strict_messages(
        [problem for problem in problems if problem.kind == "repeated"]
    )
    if repeated and options.field_validation == write_options.STRICT:
        raise errors.bad_request(f"error strict decoding YAML: {', '.join(repeated)}")
    warnings.extend(repeated)


def _apply(
    call: Call, live: JsonObject | None, applied: JsonObject, options: WriteOptions
) -> JsonObject:
    _check_applied(call, applied)
    return server_side_apply.apply(
        live,
        applied,
        gvk=call.gvk,
        manager=options.field_manager,
        force=options.force,
        subresource=call.info.subresource,
        now=call.now,
    )


def _check_applied(call: Call, applied: JsonObject) -> None:
    api_version, kind = applied.get("apiVersion"), applied.get("kind")
    if (api_version, kind) != (call.gvk.api_version, call.gvk.kind):
        raise errors.bad_request(
            f"the applied configuration is a {kind} of {api_version}; "
            f"this path takes a {call.gvk.kind} of {call.gvk.api_version}"
        )
    metadata = applied.setdefault("metadata", {})
    if metadata.setdefault("name", call.info.name) != call.info.name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({call.info.name})"
        )
    if metadata.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
