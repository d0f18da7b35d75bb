"""pods/log, exec, attach and portforward: finds the container, and forwards to its node's agent.

As pkg/registry/core/pod/strategy.go, LogLocation and streamLocation: a pod without a node has an
empty log, and nothing to connect to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dray.api import errors, remote_command
from dray.api.formats import gonumbers
from dray.api.http_messages import Request, Response
from dray.api.ids import GroupKind
from dray.api.types.meta import JsonObject
from dray.apiserver.access.rbac import Attributes, Authorize
from dray.apiserver.admission import admission_chain
from dray.apiserver.admission.admission_chain import AdmissionChain, AdmissionRequest
from dray.apiserver.node_agents import NodeAgents, Query
from dray.apiserver.request import validation
from dray.apiserver.request.call import Call
from dray.apiserver.storage import store_keys
from dray.apiserver.subresources import plain_websockets, spdy_sessions
from dray.apiserver.verbs import reads
from dray.store.store import Store
from dray.validation import fields

UNNAMED = ""
"""What a client of a WebSocket speaks that names no protocol."""
_LISTS = ("initContainers", "containers", "ephemeralContainers")
_SWITCHES = ("follow", "previous", "timestamps")
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_LEAST = {"tailLines": 0, "limitBytes": 1, "sinceSeconds": 1}


class ContainerLocation(NamedTuple):
    """The node and the container of a request; the node is empty before binding."""

    node: str
    container: str


@dataclass(frozen=True, slots=True)
class PodAccess:
    store: Store
    chain: AdmissionChain
    agents: NodeAgents
    authorize: Authorize

    async def log(self, call: Call) -> Response:
        options_kind = GroupKind("", "PodLogOptions")
        validation.refuse(options_kind, call.info.name, _log_problems(call.request))
        place = await self._place(call)
        if not place.node:
            return Response(204)
        path = _path(remote_command.LOGS, call, place)
        query = tuple(_log_query(call.request))
        if _upgrade(call.request) != "websocket":
            return await self.agents.log(place.node, path, query)
        protocol = _spoken(call, remote_command.LOG_PROTOCOL, UNNAMED)
        response = await self.agents.log(place.node, path, query)
        return Response(101, upgrade=plain_websockets.log(response, protocol))

    async def connect(self, call: Call) -> Response:
        """Handle exec and attach. A WebSocket opens with GET, but needs `create` as well.

        The agent gets a WebSocket also where the client speaks SPDY.
        """
        self._check_may_create(call)
        await self.chain.validate(_connection(call, _stream_options(call)))
        place = await self._place(call)
        if not place.node:
            raise errors.bad_request(f"pod {call.info.name} does not have a host assigned")
        path, query = _path(call.info.subresource, call, place), tuple(_stream_query(call.request))
        if _upgrade(call.request) != remote_command.SPDY.lower():
            return await self._websocket(call, place.node, path, query)
        _spoken(call, remote_command.V4)
        response = await self.agents.connect(place.node, path, query, (remote_command.V5,))
        assert response.upgrade is not None
        streams = _spdy_streams(call.request)
        return Response(101, upgrade=spdy_sessions.translated(response.upgrade, streams))

    async def _websocket(self, call: Call, node: str, path: str, query: Query) -> Response:
        protocols = _protocols(call.request)
        if protocols or _upgrade(call.request) != "websocket":
            return await self.agents.connect(node, path, query, protocols)
        plain = _spoken(call, *remote_command.PROTOCOLS, remote_command.V1, UNNAMED)
        response = await self.agents.connect(node, path, query, (remote_command.V4,))
        assert response.upgrade is not None
        return Response(101, upgrade=plain_websockets.without_status(response.upgrade, plain))

    async def forward(self, call: Call) -> Response:
        """Handle portforward: SPDY, by itself or in a WebSocket. The agent gets the latter."""
        self._check_may_create(call)
        await self.chain.validate(_connection(call, _forward_options(call.request)))
        info = call.info
        node = (await reads.stored_object(call, self.store)).document["spec"].get("nodeName", "")
        if not node:
            raise errors.bad_request(f"pod {info.name} does not have a host assigned")
        _check_forwarding(call)
        path = f"/{remote_command.PORT_FORWARD}/{info.namespace}/{info.name}"
        return await self.agents.connect(node, path, (), (remote_command.TUNNEL,))

    def _check_may_create(self, call: Call) -> None:
        info = call.info
        attributes = Attributes(
            "create", info.group, info.resource, info.subresource, info.namespace, info.name
        )
        refusal = self.authorize(call.user, attributes)
        if refusal is not None:
            raise errors.forbidden(store_keys.group_resource(call.kind), info.name, refusal)

    async def _place(self, call: Call) -> ContainerLocation:
        pod = (await reads.stored_object(call, self.store)).document
        return ContainerLocation(pod["spec"].get("nodeName", ""), _container(call, pod))


def _stream_options(call: Call) -> JsonObject:
    options: JsonObject = {
        name: True for name in _STREAMS if _is_true(call.request.parameter(name))
    }
    if container := call.request.parameter("container"):
        options["container"] = container
    if call.info.subresource == "exec":
        options["command"] = [value for name, value in call.request.query if name == "command"]
    return options


def _forward_options(request: Request) -> JsonObject:
    texts = ",".join(value for name, value in request.query if name == "ports")
    try:
        return {"ports": [gonumbers.uint16(text) for text in texts.split(",")]} if texts else {}
    except gonumbers.NumberError as error:
        raise errors.bad_request(f"cannot convert to []int32: {error}") from error


def _connection(call: Call, options: JsonObject) -> AdmissionRequest:
    """Return the admission request of a connection: its object are the options of the client."""
    assert call.body_kind is not None
    kind, version = call.body_kind.kind, call.body_kind.api_version
    return AdmissionRequest(
        operation=admission_chain.CONNECT,
        kind=call.kind,
        user=call.user,
        namespace=call.namespace,
        name=call.info.name,
        new={"kind": kind, "apiVersion": version, **options},
        subresource=call.info.subresource,
        verb=call.info.verb,
        version=call.gvk.version,
        body_kind=call.body_kind,
        notes=call.notes,
    )


def _container(call: Call, pod: JsonObject) -> str:
    """Return the requested container; without a name, the only one."""
    requested, names = call.request.parameter("container"), list(_names(pod))
    if requested in names:
        return requested
    if requested:
        raise errors.bad_request(f"container {requested} is not valid for pod {call.info.name}")
    regular = [container["name"] for container in pod["spec"]["containers"]]
    if len(regular) == 1:
        return str(regular[0])
    raise errors.bad_request(
        f"a container name must be specified for pod {call.info.name}, "
        f"choose one of: [{' '.join(names)}]"
    )


def _names(pod: JsonObject) -> Iterator[str]:
    return (container["name"] for field in _LISTS for container in pod["spec"].get(field) or ())


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
        return gonumbers.int64(text) if text else None
    except gonumbers.NumberError as error:
        raise errors.bad_request(f"{error} ({name})") from error


def _path(what: str, call: Call, place: ContainerLocation) -> str:
    return f"/{what}/{call.info.namespace}/{call.info.name}/{place.container}"


def _log_query(request: Request) -> Iterator[tuple[str, str]]:
    for name in _SWITCHES:
        if _is_true(request.parameter(name)):
            yield name, "true"
    for name in (*_LEAST, "sinceTime"):
        if text := request.parameter(name):
            yield name, text


def _stream_query(request: Request) -> Iterator[tuple[str, str]]:
    """Return kubectl's parameters with the names that a kubelet has for them."""
    for name, theirs in _STREAMS.items():
        if _is_true(request.parameter(name)):
            yield theirs, "1"
    for name, value in request.query:
        if name == "command":
            yield name, value


def _spdy_streams(request: Request) -> Iterator[str]:
    """Return the types of the streams that a client of SPDY opens, besides that for errors."""
    has_tty = _is_true(request.parameter("tty"))
    for name in ("stdin", "stdout", "stderr"):
        if _is_true(request.parameter(name)) and not (has_tty and name == "stderr"):
            yield name
    if has_tty:
        yield "resize"


def _upgrade(request: Request) -> str:
    return request.headers.get("upgrade", "").lower()


def _protocols(request: Request) -> tuple[str, ...]:
    """Return the common protocols with an exit status, the newest first."""
    if _upgrade(request) != "websocket":
        return ()
    offered = _offered(request)
    return tuple(protocol for protocol in remote_command.PROTOCOLS if protocol in offered)


def _offered(request: Request) -> list[str]:
    """Return the protocols that the client of an upgrade speaks."""
    is_spdy = _upgrade(request) == remote_command.SPDY.lower()
    name = "x-stream-protocol-version" if is_spdy else "sec-websocket-protocol"
    return request.headers.get(name, "").replace(" ", "").split(",")


def _spoken(call: Call, *protocols: str) -> str:
    """Return the first of some protocols that the client speaks. Raises BadRequest."""
    offered = _offered(call.request)
    for protocol in protocols:
        if protocol in offered:
            return protocol
    supported = " and ".join(filter(None, protocols))
    raise errors.bad_request(
        f"{call.info.subresource} speaks {supported}, not {', '.join(offered)}"
    )


def _check_forwarding(call: Call) -> None:
    known = {
        "websocket": remote_command.TUNNEL,
        remote_command.SPDY.lower(): remote_command.PORT_FORWARD_PROTOCOL,
    }
    upgrade = _upgrade(call.request)
    if upgrade not in known:
        raise errors.bad_request("unable to upgrade: missing upgrade headers in request")
    _spoken(call, known[upgrade])


def _is_true(text: str) -> bool:
    return text.lower() in ("1", "t", "true")
