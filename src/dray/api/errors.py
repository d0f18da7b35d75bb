"""The error tree, to and from `Status`.

    StatusError
    ├── ClientError                 4xx: the server did nothing
    │   ├── BadRequest              400
    │   ├── Unauthorized            401
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── MethodNotAllowed        405
    │   ├── NotAcceptable           406
    │   ├── AlreadyExists           409
    │   ├── Conflict                409
    │   ├── Gone                    410
    │   ├── Expired                 410
    │   ├── RequestEntityTooLarge   413
    │   ├── UnsupportedMediaType    415
    │   ├── Invalid                 422
    │   └── TooManyRequests         429
    └── ServerError                 5xx: the server may have done it all the same
        ├── InternalError           500
        ├── ServerTimeout           500
        ├── StorageReadError        500
        ├── ServiceUnavailable      503
        └── Timeout                 504

The API server raises them and renders them with `to_status`, the client raises the same
classes from what `from_status` reads. A class is chosen by the reason of a Status, and by its code
where the reason is not one of Kubernetes' own; reason and code always survive as they were sent.

The functions at the end make errors worded as apimachinery, api/errors, words them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from dray.api.formats import gotext
from dray.api.ids import GroupKind, GroupResource


class Cause(NamedTuple):
    """One of the things that were wrong: where, which sort of wrong, in which words."""

    field: str = ""
    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True):
    """The object and causes of an error.

    `kind` is a plural name except in Invalid, as in Kubernetes.
    """

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class StatusError(Exception):
    """A request that did not succeed, as the API tells it."""

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init_subclass__(cls, *, code: int | None = None) -> None:
        """Set the code, and the reason of a leaf of the tree: its name."""
        if code is not None:
            cls.default_code = code
        if StatusError not in cls.__bases__:
            cls.default_reason = cls.__name__

    def __init__(
        self,
        message: str,
        details: Details | None = None,
        *,
        code: int | None = None,
        reason: str | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.code = self.default_code if code is None else code
        self.reason = self.default_reason if reason is None else reason
        self.continue_token = continue_token

    @property
    def causes(self) -> tuple[Cause, ...]:
        return self.details.causes if self.details else ()

    @property
    def retry_after_seconds(self) -> int:
        return self.details.retry_after_seconds if self.details else 0


class ClientError(StatusError, code=400):
    """4xx: the server did nothing."""


class BadRequest(ClientError):
    """The request is malformed."""


class Unauthorized(ClientError, code=401):
    """The request has no valid credentials."""


class Forbidden(ClientError, code=403):
    """The user may not do this."""


class NotFound(ClientError, code=404):
    """The object or the path does not exist."""


class MethodNotAllowed(ClientError, code=405):
    """The path does not support the method."""


class NotAcceptable(ClientError, code=406):
    """The server has no representation that the client accepts."""


class AlreadyExists(ClientError, code=409):
    """There is an object of that name already."""


class Conflict(ClientError, code=409):
    """The object has changed since the caller read it, or another field manager owns a field."""


class Gone(ClientError, code=410):
    """The resource is no longer available."""


class Expired(ClientError, code=410):
    """A resource version or continue token is too old; `continue_token` may allow to go on."""


class RequestEntityTooLarge(ClientError, code=413):
    """The body is larger than the server accepts."""


class UnsupportedMediaType(ClientError, code=415):
    """The body has a media type that the server cannot read."""


class Invalid(ClientError, code=422):
    """The object breaks rules; `causes` has one record for each."""


class TooManyRequests(ClientError, code=429):
    """The client has to wait before it retries."""


class ServerError(StatusError):
    """5xx: the server may have done it all the same."""


class InternalError(ServerError):
    """The server failed."""


class ServerTimeout(ServerError):
    """The server did not finish in time; the client may retry."""


class StorageReadError(ServerError):
    """The server could not read a stored object."""


class ServiceUnavailable(ServerError, code=503):
    """The server cannot handle requests now."""


class Timeout(ServerError, code=504):
    """The request did not finish in its time."""


_LEAVES: tuple[type[StatusError], ...] = (
    *ClientError.__subclasses__(),
    *ServerError.__subclasses__(),
)
_BY_REASON = {leaf.default_reason: leaf for leaf in _LEAVES}
# Two reasons share a code three times; what the code alone means is as in the Is… functions of
# apimachinery, api/errors.
_BY_CODE = {leaf.default_code: leaf for leaf in _LEAVES} | {
    409: Conflict,
    410: Gone,
    500: InternalError,
}


def class_of(reason: str, code: int) -> type[StatusError]:
    """Return the class for a Status with that reason and code."""
    subclass = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if subclass:
        return subclass
    return ClientError if 400 <= code < 500 else ServerError


def to_status(error: StatusError) -> dict[str, Any]:
    """Return the Status object for an error."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": _present({"continue": error.continue_token}),
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    if error.details is not None:
        status["details"] = _details_to_wire(error.details)
    status["code"] = error.code
    return status


def from_status(status: Mapping[str, Any]) -> StatusError:
    """Return the error of a Status object, which may be incomplete."""
    reason, code = status.get("reason") or "", status.get("code") or 500
    details = status.get("details")
    return class_of(reason, code)(
        status.get("message") or reason or "unknown error",
        None if details is None else _details_from_wire(details),
        code=code,
        reason=reason,
        continue_token=(status.get("metadata") or {}).get("continue") or "",
    )


def _details_to_wire(details: Details) -> dict[str, Any]:
    causes = [
        _present({"reason": cause.reason, "message": cause.message, "field": cause.field})
        for cause in details.causes
    ]
    return _present(
        {
            "name": details.name,
            "group": details.group,
            "kind": details.kind,
            "uid": details.uid,
            "causes": causes,
            "retryAfterSeconds": details.retry_after_seconds,
        }
    )


def _details_from_wire(details: Mapping[str, Any]) -> Details:
    return Details(
        name=details.get("name") or "",
        group=details.get("group") or "",
        kind=details.get("kind") or "",
        uid=details.get("uid") or "",
        causes=tuple(
            Cause(cause.get("field") or "", cause.get("reason") or "", cause.get("message") or "")
            for cause in details.get("causes") or ()
        ),
        retry_after_seconds=details.get("retryAfterSeconds") or 0,
    )


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _about(resource: GroupResource, name: str = "", **more: Any) -> Details:
    return Details(name=name, group=resource.group, kind=resource.resource, **more)


OBJECT_WAS_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def bad_request(why: str) -> BadRequest:
    return BadRequest(why)


def unauthorized(why: str = "") -> Unauthorized:
    return Unauthorized(why or "not authorized")


def forbidden(resource: GroupResource | None, name: str, why: str) -> Forbidden:
    """Return a Forbidden error; `resource` is None if the path is not that of an object."""
    if resource is None:
        return Forbidden(f"forbidden: {why}", Details())
    subject = f"{resource} {gotext.quote(name)}" if name else str(resource)
    return Forbidden(f"{subject} is forbidden: {why}", _about(resource, name))


def not_found(resource: GroupResource, name: str) -> NotFound:
    return NotFound(f"{resource} {gotext.quote(name)} not found", _about(resource, name))


def path_not_found() -> NotFound:
    return NotFound("the server could not find the requested resource", Details())


def not_acceptable(media_types: Iterable[str]) -> NotAcceptable:
    listed = ", ".join(media_types)
    return NotAcceptable(f"only the following media types are accepted: {listed}")


def no_representation(media_types: Iterable[str]) -> NotAcceptable:
    """Return the error for a client that accepts none of the media types served here."""
    listed = ", ".join(media_types)
    message = f"406: Not Acceptable\n\nAvailable representations: {listed}"
    return NotAcceptable(message, Details())


def already_exists(resource: GroupResource, name: str) -> AlreadyExists:
    return AlreadyExists(f"{resource} {gotext.quote(name)} already exists", _about(resource, name))


def generated_name_exists(resource: GroupResource, name: str) -> AlreadyExists:
    message = (
        f"{resource} {gotext.quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    return AlreadyExists(message, _about(resource, name, retry_after_seconds=1))


def conflict(resource: GroupResource, name: str, why: str = OBJECT_WAS_MODIFIED) -> Conflict:
    message = f"Operation cannot be fulfilled on {resource} {gotext.quote(name)}: {why}"
    return Conflict(message, _about(resource, name))


def apply_conflict(message: str, causes: Iterable[Cause]) -> Conflict:
    return Conflict(message, Details(causes=tuple(causes)))


def expired(message: str, continue_token: str = "") -> Expired:
    return Expired(message, continue_token=continue_token)


def too_old(requested: int, oldest: int) -> Expired:
    """Return the error for a watch from a revision older than the history."""
    return Expired(f"too old resource version: {requested} ({oldest})")


def invalid(kind: GroupKind, name: str, causes: Iterable[Cause]) -> Invalid:
    """Return one error for all rules that an object breaks."""
    causes = tuple(causes)
    message = f"{kind} {gotext.quote(name)} is invalid"
    if causes:
        message += ": " + gotext.aggregate(f"{cause.field}: {cause.message}" for cause in causes)
    return Invalid(message, Details(name=name, group=kind.group, kind=kind.kind, causes=causes))


def request_entity_too_large(why: str) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"Request entity too large: {why}")


def unsupported_media_type(media_types: Iterable[str]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(media_types)}"
    )


def too_many_requests(message: str, retry_after_seconds: int) -> TooManyRequests:
    return TooManyRequests(message, Details(retry_after_seconds=retry_after_seconds))


def internal_error(why: str) -> InternalError:
    return InternalError(f"Internal error occurred: {why}", Details(causes=(Cause(message=why),)))


def service_unavailable(why: str) -> ServiceUnavailable:
    return ServiceUnavailable(why)


def timeout(why: str, retry_after_seconds: int = 0) -> Timeout:
    return Timeout(f"Timeout: {why}", Details(retry_after_seconds=retry_after_seconds))


def too_large_resource_version(requested: int, current: int) -> Timeout:
    """Return the error for a revision that does not exist yet: the client should retry."""
    cause = Cause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return Timeout(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        Details(causes=(cause,), retry_after_seconds=1),
    )


_WITHOUT_STATUS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be "
    "processing the request",
}


def from_response(code: int, body: str, retry_after_seconds: int = 0) -> StatusError:
    """Return the error for a response without a Status, such as that of a proxy."""
    if code in (403, 415) or (code == 406 and body):
        message = body
    elif code >= 500 and code not in _WITHOUT_STATUS:
        message = (
            f"an error on the server ({gotext.quote(body)}) has prevented the request from "
            "succeeding"
        )
    else:
        message = _WITHOUT_STATUS.get(
            code,
            f"the server responded with the status code {code} but did not return more information",
        )
    cause = Cause(reason="UnexpectedServerResponse", message=body)
    details = Details(causes=(cause,), retry_after_seconds=retry_after_seconds)
    return class_of("", code)(message, details, code=code)
