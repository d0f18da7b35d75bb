"""pods/log, exec and attach: which container of which node is meant.

As pkg/registry/core/pod/strategy.go, LogLocation and streamLocation: a pod without a node has an
empty log, and nothing to connect to. What a node has to say comes from its agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dray.api import errors
from dray.api.exchange import Request, Response
from dray.api.names import GroupKind
from dray.apiserver import checks
from dray.apiserver.reads import Call
from dray.apiserver.subresources import subresources
from dray.store.store import Store
from dray.validation import fields

Object = dict[str, Any]

_LISTS = ("initContainers", "containers", "ephemeralContainers")
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}


class Place(NamedTuple):
    """Where a container runs; the node is empty while there is none."""

    node: str
    container: str


@dataclass(frozen=True, slots=True)
class PodAccess:
    store: Store

    async def log(self, call: Call) -> Response:
        _check_log_options(call)
        place = await self._place(call)
        if not place.node:
            return Response(204)
        raise _unreachable(place)

    async def connect(self, call: Call) -> Response:
        """exec and attach."""
        place = await self._place(call)
        if not place.node:
            raise errors.bad_request(f"pod {call.info.name} does not have a host assigned")
        raise _unreachable(place)

    async def _place(self, call: Call) -> Place:
        entry = await subresources.entry_of(self.store, call)
        pod = subresources.document_of(entry, call)
        return Place(pod["spec"].get("nodeName", ""), _container(call, pod))


def _container(call: Call, pod: Object) -> str:
    """The container that is asked for; a pod with one needs no name."""
    asked, names = call.request.parameter("container"), list(_names(pod))
    if asked in names:
        return asked
    if asked:
        raise errors.bad_request(f"container {asked} is not valid for pod {call.info.name}")
    regular = [each["name"] for each in pod["spec"]["containers"]]
    if len(regular) == 1:
        return str(regular[0])
    raise errors.bad_request(
        f"a container name must be specified for pod {call.info.name}, "
        f"choose one of: [{' '.join(names)}]"
    )


def _names(pod: Object) -> Iterator[str]:
    return (each["name"] for field in _LISTS for each in pod["spec"].get(field) or ())


def _check_log_options(call: Call) -> None:
    found = list(_log_problems(call.request))
    if found:
        group_kind = GroupKind("", "PodLogOptions")
        raise errors.invalid(group_kind, call.info.name, checks.causes(found))


def _log_problems(request: Request) -> fields.Errors:
    numbers = {name: _number(request, name) for name in _LEAST}
    for name, least in _LEAST.items():
        number = numbers[name]
        if number is not None and number < least:
            limit = "greater than 0" if least else "greater than or equal to 0"
            yield fields.invalid(fields.ROOT.child(name), number, f"must be {limit}")
    if numbers["sinceSeconds"] is not None and request.parameter("sinceTime"):
        yield fields.forbidden(
            fields.WHOLE_OBJECT, "at most one of `sinceTime` or `sinceSeconds` may be specified"
        )


def _number(request: Request, name: str) -> int | None:
    text = request.parameter(name)
    try:
        return int(text) if text else None
    except ValueError as error:
        raise errors.bad_request(
            f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})'
        ) from error


def _unreachable(place: Place) -> errors.StatusError:
    return errors.service_unavailable(
        f"no way to reach the agent of node {place.node}, which runs {place.container}"
    )
