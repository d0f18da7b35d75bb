"""Rules for what is done to a container from outside: probes, hooks, stop signals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from dray.api.formats import names
from dray.api.schema import merge_rules
from dray.api.types import containers
from dray.validation import fields, metadata

LINUX_SIGNALS: Final = merge_rules.ENUMS["core.v1.Signal"]
WINDOWS_SIGNALS: Final = ("SIGKILL", "SIGTERM")

_HEADER_NAME = re.compile("[-A-Za-z0-9]+")
_HEADER_NAME_COMPLAINT = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    f"regex used for validation is '{_HEADER_NAME.pattern}')"
)
_PORT_RANGE = "must be between 1 and 65535, inclusive"


def port_number(port: int, path: fields.Path) -> fields.Errors:
    if not 1 <= port <= 65535:
        yield fields.invalid(path, port, _PORT_RANGE)


def port_number_or_name(port: int | str, path: fields.Path) -> fields.Errors:
    if isinstance(port, int):
        yield from port_number(port, path)
        return
    yield from fields.invalid_details(path, port, names.port_name_errors(port))


def liveness_probe(
    probe: containers.Probe | None, grace_period: int | None, path: fields.Path
) -> fields.Errors:
    """Check a liveness or startup probe: one success is enough."""
    if probe is None:
        return
    yield from _probe(probe, grace_period, path)
    if probe.success_threshold != 1:
        yield fields.invalid(path.child("successThreshold"), probe.success_threshold, "must be 1")


def readiness_probe(
    probe: containers.Probe | None, grace_period: int | None, path: fields.Path
) -> fields.Errors:
    if probe is None:
        return
    yield from _probe(probe, grace_period, path)
    if probe.termination_grace_period_seconds is not None:
        yield fields.invalid(
            path.child("terminationGracePeriodSeconds"),
            probe.termination_grace_period_seconds,
            "must not be set for readinessProbes",
        )


def _probe(probe: containers.Probe, grace_period: int | None, path: fields.Path) -> fields.Errors:
    yield from _handler(probe, grace_period, path)
    for field, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        yield from metadata.nonnegative(value, path.child(field))
    grace = probe.termination_grace_period_seconds
    if grace is not None and grace <= 0:
        yield fields.invalid(
            path.child("terminationGracePeriodSeconds"), grace, "must be greater than 0"
        )


def lifecycle(
    value: containers.Lifecycle | None,
    grace_period: int | None,
    operating_system: str | None,
    path: fields.Path,
) -> fields.Errors:
    if value is None:
        return
    if value.post_start is not None:
        yield from _handler(value.post_start, grace_period, path.child("postStart"))
    if value.pre_stop is not None:
        yield from _handler(value.pre_stop, grace_period, path.child("preStop"))
    if value.stop_signal is not None:
        yield from _stop_signal(value.stop_signal, operating_system, path.child("stopSignal"))


def _stop_signal(signal: str, operating_system: str | None, path: fields.Path) -> fields.Errors:
    if operating_system is None:
        yield fields.forbidden(path, "may not be set for containers with empty `spec.os.name`")
        return
    supported = WINDOWS_SIGNALS if operating_system == "windows" else LINUX_SIGNALS
    yield from fields.one_of(path, signal, supported)


def _handler(
    handler: containers.Probe | containers.LifecycleHandler,
    grace_period: int | None,
    path: fields.Path,
) -> fields.Errors:
    chosen = list(_actions(handler))
    if not chosen:
        yield fields.required(path, "must specify a handler type")
        return
    (field, action), *others = chosen
    yield from _action(action, grace_period, path.child(field))
    for other, _ in others:
        yield fields.forbidden(path.child(other), "may not specify more than 1 handler type")


def _actions(handler: containers.Probe | containers.LifecycleHandler) -> Iterator[tuple[str, Any]]:
    for attribute, field in (
        ("exec", "exec"),
        ("http_get", "httpGet"),
        ("tcp_socket", "tcpSocket"),
        ("grpc", "grpc"),
        ("sleep", "sleep"),
    ):
        action = getattr(handler, attribute, None)
        if action is not None:
            yield field, action


def _action(action: Any, grace_period: int | None, path: fields.Path) -> fields.Errors:
    match action:
        case containers.ExecAction():
            if not action.command:
                yield fields.required(path.child("command"))
        case containers.HTTPGetAction():
            yield from _http_get(action, path)
        case containers.SleepAction():
            if grace_period is not None and not 0 <= action.seconds <= grace_period:
                yield fields.invalid(
                    path,
                    action.seconds,
                    "must be non-negative and less than terminationGracePeriodSeconds "
                    f"({grace_period})",
                )
        case _:
            yield from port_number_or_name(action.port, path.child("port"))


def _http_get(action: containers.HTTPGetAction, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("path"), action.path)
    yield from port_number_or_name(action.port, path.child("port"))
    yield from fields.one_of(path.child("scheme"), action.scheme, ("HTTP", "HTTPS"))
    for header in action.http_headers:
        if not _HEADER_NAME.fullmatch(header.name):
            yield fields.invalid(path.child("httpHeaders"), header.name, _HEADER_NAME_COMPLAINT)
