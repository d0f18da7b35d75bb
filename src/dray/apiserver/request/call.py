"""The context of one request: user, kind, verb and form of the response."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import msgspec

from dray.api import errors
from dray.api.http_messages import Request, User
from dray.api.kinds import GroupVersionKind, Kind
from dray.apiserver.request import negotiation
from dray.apiserver.request.negotiation import Form
from dray.apiserver.request.request_info import RequestInfo
from dray.apiserver.request.request_notes import RequestNotes
from dray.apiserver.storage import store_keys


class Call(msgspec.Struct, frozen=True):
    """One request for an existing kind by an authorized user."""

    request: Request
    info: RequestInfo
    kind: Kind
    gvk: GroupVersionKind
    """The version of the API that the client uses."""
    user: User
    now: datetime.datetime
    notes: RequestNotes = msgspec.field(default_factory=RequestNotes)

    def about(self, kind: Kind, info: RequestInfo) -> Call:
        """Return the same request for another kind."""
        gvk = kind.in_version(info.version)
        return msgspec.structs.replace(self, kind=kind, gvk=gvk, info=info)

    @property
    def form(self) -> Form:
        accept = self.request.headers.get("accept", "")
        tables = negotiation.TABLE in accept and self._has_table
        return negotiation.negotiate(
            accept, streams=self.info.verb in ("list", "watch"), tables=tables
        )

    @property
    def _has_table(self) -> bool:
        """Return False for what is only created, never read: reviews, bindings, tokens."""
        name = self.info.subresource
        subresource = self.kind.subresource(name) if name else None
        return "get" in (subresource.verbs if subresource else self.kind.verbs)

    @property
    def body_kind(self) -> GroupVersionKind | None:
        """The kind of the body of a subresource, where that is not the object's own."""
        if not self.info.subresource:
            return None
        described = self.kind.subresource(self.info.subresource)
        return described.kind if described else None

    @property
    def content_type(self) -> str:
        return self.request.headers.get("content-type", "")

    @property
    def key(self) -> str:
        return store_keys.key(self.kind, self.info.name, self.namespace)

    @property
    def namespace(self) -> str:
        return self.info.namespace if self.kind.namespaced else ""

    def not_found(self) -> errors.NotFound:
        return errors.not_found(store_keys.group_resource(self.kind), self.info.name)


Clock = Callable[[], datetime.datetime]
