"""The audit log: a line for every request with user, object and result; no bodies.

Lines are events of audit.k8s.io/v1 at the level Metadata, so that tools for the audit log of
Kubernetes read this one. The file is only appended to: it may be truncated while in use.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

import msgspec

from dray.api.http_messages import Request, User
from dray.apiserver.request.request_info import RequestInfo
from dray.clock import utc_now

log = logging.getLogger(__name__)

LATENCY = "apiserver.latency.k8s.io/total"
NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})


class AuditLog:
    """Appends to a file that only its owner may read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._has_failed = False

    def record(
        self,
        request: Request,
        info: RequestInfo,
        user: User,
        *,
        code: int,
        seconds: float,
        is_stream: bool = False,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        event = _event(request, info, user, code, seconds, is_stream)
        event["annotations"].update(annotations)
        try:
            os.write(self._descriptor, msgspec.json.encode(event) + b"\n")
        except OSError as error:
            if not self._has_failed:
                log.error("the audit log cannot be written: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[AuditLog | None]:
    """Open the log in a file, which is created if it is absent; yield None without a file."""
    if path is None:
        yield None
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield AuditLog(descriptor)
    finally:
        os.close(descriptor)


def _event(
    request: Request, info: RequestInfo, user: User, code: int, seconds: float, is_stream: bool
) -> dict[str, Any]:
    now = utc_now()
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": str(uuid.uuid4()),
        "stage": "ResponseStarted" if is_stream else "ResponseComplete",
        "requestURI": _uri(request),
        "verb": info.verb,
        "user": _wire(user.impersonator or user),
        "impersonatedUser": _wire(user) if user.impersonator else None,
        "sourceIPs": [request.source] if request.source else None,
        "userAgent": request.headers.get("user-agent"),
        "objectRef": _subject(info),
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": _time(now - datetime.timedelta(seconds=seconds)),
        "stageTimestamp": _time(now),
        "annotations": {LATENCY: f"{seconds * 1000:.3f}ms"},
    }
    return {key: value for key, value in event.items() if value is not None}


def _uri(request: Request) -> str:
    return f"{request.path}?{urlencode(request.query)}" if request.query else request.path


def _wire(user: User) -> dict[str, Any]:
    named = {"username": user.name, "uid": user.uid, "groups": sorted(user.groups)}
    return {key: value for key, value in named.items() if value}


def _subject(info: RequestInfo) -> dict[str, str] | None:
    if not info.is_resource:
        return None
    subject = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {key: value for key, value in subject.items() if value}


def _time(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
