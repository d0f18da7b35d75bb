"""Connections to node agents: addresses, mutual authentication, logs and exec.

An agent is authenticated by the certificate in its Node, which only the node may write; the API
server by a certificate of the cluster's authority. So host names do not matter.
"""

from __future__ import annotations

import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import aiohttp
import msgspec

from dray.api import errors, kinds, remote_command
from dray.api.http_messages import Response
from dray.api.types.meta import ObjectMeta, Wire
from dray.api.types.nodes import NodeAddress, NodeDaemonEndpoints, NodeSystemInfo
from dray.apiserver.access import renewal
from dray.apiserver.access.certificates import KeyPair
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Reader
from dray.client import rest, websockets
from dray.clock import utc_now
from dray.store.store import Store

ADDRESSES = ("InternalIP", "ExternalIP", "Hostname")
CONNECT_SECONDS = 10.0
NO_LOG = "its containers have no log"
NO_ACCESS = "nothing can be run in its containers"

Query = tuple[tuple[str, str], ...]
MakeIdentity = Callable[[], KeyPair]


class _Status(Wire, frozen=True):
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()


class _Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


class AgentEndpoint(msgspec.Struct, frozen=True):
    """The address of an agent, and its certificate."""

    node: str
    url: str
    certificate: str


class _AgentContext(NamedTuple):
    """The TLS context for an agent, and when the server's own certificate in it is due."""

    certificate: str
    context: ssl.SSLContext
    renewal: datetime.datetime


class NodeAgents:
    """The agents of all nodes. Use it as a context manager, which closes the connections."""

    def __init__(self, store: Store, identity: MakeIdentity | None) -> None:
        self._store = store
        self._reader = Reader(_Node)
        self._make_identity = identity
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, _AgentContext] = {}

    async def __aenter__(self) -> NodeAgents:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def log(self, node: str, path: str, query: Query) -> Response:
        """Return a log of the node's agent; a followed one streams."""
        response = await self._get(await self._find(node, NO_LOG), path, query)
        headers = {"content-type": "text/plain"}
        if response.status == 200 and ("follow", "true") in query:
            return Response(200, headers, stream=_chunks(response))
        async with response:
            body = await response.read()
        if response.status != 200:
            raise _refused(response.status, body)
        return Response(200, headers, body)

    async def connect(
        self, node: str, path: str, query: Query, protocols: tuple[str, ...]
    ) -> Response:
        """Return an upgrade that connects to a container, in one of some protocols.

        Without a protocol, the agent's error is raised.
        """
        if not protocols:
            return await self._plain(node, path, query)
        endpoint = await self._find(node, NO_ACCESS)
        connecting = self._open().ws_connect(
            endpoint.url + path,
            params=query,
            protocols=protocols,
            ssl=self._tls(endpoint),
            max_msg_size=websockets.MAX_MESSAGE_BYTES,
        )
        try:
            return Response(101, upgrade=await websockets.upgraded(connecting))
        except websockets.UpgradeRefused as refusal:
            raise _refused(refusal.status, refusal.body) from refusal
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(endpoint, error) from error

    async def _plain(self, node: str, path: str, query: Query) -> Response:
        async with await self._get(await self._find(node, NO_ACCESS), path, query) as response:
            raise _refused(response.status, await response.read())

    async def _get(
        self, endpoint: AgentEndpoint, path: str, query: Query
    ) -> aiohttp.ClientResponse:
        try:
            return await self._open().get(
                endpoint.url + path, params=query, ssl=self._tls(endpoint)
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(endpoint, error) from error

    async def _find(self, node: str, else_: str) -> AgentEndpoint:
        with store_keys.translated():
            entry = await self._store.get(store_keys.key(kinds.NODE, node))
        if entry is None:
            raise errors.service_unavailable(f"node {node} does not exist, so {else_}")
        stored_node = self._reader.read(entry)
        runtime = stored_node.status.node_info.container_runtime_version
        if runtime.startswith(remote_command.IN_NAME_ONLY):
            raise errors.bad_request(
                f"pods on node {node} are simulated, so {else_}: "
                "to run containers, start dray with --runtime sandbox"
            )
        return _endpoint(stored_node, else_)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = websockets.session(connector, connect_seconds=CONNECT_SECONDS)
        return self._session

    def _tls(self, endpoint: AgentEndpoint) -> ssl.SSLContext:
        cached = self._contexts.get(endpoint.node)
        if (
            cached is not None
            and cached.certificate == endpoint.certificate
            and utc_now() < cached.renewal
        ):
            return cached.context
        if self._make_identity is None:
            raise errors.service_unavailable(
                "this API server has no certificate for requests to nodes"
            )
        identity = self._make_identity()
        context = _context(endpoint, identity)
        due = renewal.renewal_time(identity)
        self._contexts[endpoint.node] = _AgentContext(endpoint.certificate, context, due)
        return context


def _endpoint(node: _Node, else_: str) -> AgentEndpoint:
    name = node.metadata.name
    certificate = node.metadata.annotations.get(remote_command.CERTIFICATE_ANNOTATION, "")
    port = node.status.daemon_endpoints.kubelet_endpoint.port
    by_type = {address.type: address.address for address in node.status.addresses}
    address = next((by_type[type_] for type_ in ADDRESSES if type_ in by_type), "")
    if not certificate or not port or not address:
        raise errors.service_unavailable(
            f"node {name} has no address of its agent, so {else_}: is it running?"
        )
    host = f"[{address}]" if ":" in address else address
    return AgentEndpoint(name, f"https://{host}:{port}", certificate)


def _context(endpoint: AgentEndpoint, identity: KeyPair) -> ssl.SSLContext:
    """Return a TLS context that trusts only this certificate, and has the server's own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=endpoint.certificate)
    except ssl.SSLError as error:
        text = f"the certificate of the agent of node {endpoint.node} cannot be read: {error}"
        raise errors.service_unavailable(text) from error
    rest.load_pair(context, identity.certificate, identity.key)
    return context


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError):
        # The agent has disconnected: the stream ends.
        return
    finally:
        response.close()


def _unreachable(endpoint: AgentEndpoint, error: BaseException) -> errors.StatusError:
    why = str(error) or type(error).__name__
    return errors.service_unavailable(f"the agent of node {endpoint.node} does not answer: {why}")


def _refused(status: int, body: bytes) -> errors.StatusError:
    """As apiserver/pkg/registry/generic/rest, GenericHttpResponseChecker."""
    text = body[:2048].decode("utf-8", "replace")
    return errors.bad_request(text) if status == 400 else errors.from_response(status, text)
