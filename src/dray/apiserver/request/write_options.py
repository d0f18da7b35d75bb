"""Options of writes: dryRun, fieldManager, fieldValidation, force, as Kubernetes checks them."""

from __future__ import annotations

import functools
from typing import NamedTuple

from dray.api import errors
from dray.api.formats import gotext
from dray.api.http_messages import Request
from dray.api.ids import GroupKind
from dray.api.types.meta import JsonObject

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"
MAX_FIELD_MANAGER = 128


class WriteOptions(NamedTuple):
    dry_run: bool
    field_validation: str
    field_manager: str
    force: bool
    given: JsonObject
    """What the client has set, as fields of the options; not to be changed."""

    def document(self, kind: str) -> JsonObject:
        """Return the options as an object of the API."""
        return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **self.given}


def parse(request: Request, options_kind: str) -> WriteOptions:
    """Return the options of a write; `options_kind` names them in errors."""
    return _parse(request.query, _agent(request), options_kind)


@functools.lru_cache(maxsize=256)
def _parse(query: tuple[tuple[str, str], ...], agent: str, options_kind: str) -> WriteOptions:
    """Parse the options; cached, because a client sends the same with each request."""
    parameters = dict(reversed(query))
    dry_run = [value for key, value in query if key == "dryRun"]
    validation = parameters.get("fieldValidation", "")
    manager = parameters.get("fieldManager", "")
    causes = [
        *dry_run_causes(dry_run),
        *_field_validation_causes(validation),
        *_field_manager_causes(manager),
    ]
    if causes:
        raise errors.invalid(GroupKind("meta.k8s.io", options_kind), "", causes)
    force = parameters.get("force", "false").lower() not in ("false", "0")
    fields = {"dryRun": dry_run, "fieldManager": manager, "fieldValidation": validation}
    given = {key: value for key, value in fields.items() if value}
    return WriteOptions(bool(dry_run), validation or WARN, manager or agent, force, given)


def refuse_force(request: Request) -> None:
    """Raise 422 for `force`, which only server-side apply has."""
    if request.parameter("force"):
        message = "Forbidden: may not be specified for non-apply patch"
        cause = errors.Cause("force", "FieldValueForbidden", message)
        raise errors.invalid(GroupKind("meta.k8s.io", "PatchOptions"), "", [cause])


def require_manager(request: Request) -> None:
    """Raise 422 for server-side apply without a field manager."""
    if not request.parameter("fieldManager"):
        cause = errors.Cause(
            "fieldManager", "FieldValueRequired", "Required value: is required for apply patch"
        )
        raise errors.invalid(GroupKind("meta.k8s.io", "PatchOptions"), "", [cause])


def _agent(request: Request) -> str:
    """Return the default field manager: the first part of the user agent."""
    agent = request.headers.get("user-agent", "") or "unknown"
    return agent.split("/", 1)[0][:MAX_FIELD_MANAGER]


def dry_run_causes(values: list[str]) -> list[errors.Cause]:
    if all(value == "All" for value in values):
        return []
    shown = ",".join(map(gotext.quote, values))
    message = f'Unsupported value: [{shown}]: supported values: "All"'
    return [errors.Cause("dryRun", "FieldValueNotSupported", message)]


def _field_validation_causes(value: str) -> list[errors.Cause]:
    if value in ("", STRICT, WARN, IGNORE):
        return []
    message = (
        f"Unsupported value: {gotext.quote(value)}: "
        'supported values: "", "Ignore", "Strict", "Warn"'
    )
    return [errors.Cause("fieldValidation", "FieldValueNotSupported", message)]


def _field_manager_causes(value: str) -> list[errors.Cause]:
    if len(value.encode()) > MAX_FIELD_MANAGER:
        message = f"Too long: may not be more than {MAX_FIELD_MANAGER} bytes"
        return [errors.Cause("fieldManager", "FieldValueTooLong", message)]
    if not value.isprintable():
        message = f"Invalid value: {gotext.quote(value)}: should only contain printable characters"
        return [errors.Cause("fieldManager", "FieldValueInvalid", message)]
    return []
