"""A server that answers like that of the dashboard, from documents: for tests of the page alone.

`python -m tests.browser.fake_server --fleet large --churn 50` serves one to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from tests.browser import fleets

STATIC: Final = Path(__file__).parents[2] / "src" / "dray" / "ui" / "static"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; require-trusted-types-for 'script'; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'none'; object-src 'none'; img-src 'self' blob:"
    ),
    "Cache-Control": "no-store",
}
YAML: Final = """apiVersion: v1
kind: Pod
metadata:
  name: train
  namespace: ml
spec:
  containers:
  - name: main
    resources:
      claims:
      - name: gpu
"""
EXPLAINED: Final = """pod ml/dream waits: …
request gpu: 1 device of class gpu.nvidia.com
  13 published
  13 of class gpu.nvidia.com
   0 selector 0: `device.capacity[…].memory.compareTo(quantity("96Gi")) >= 0`
"""
KEY: Final = "one-time"
COOKIE: Final = "session"
Document = dict[str, Any]


class FakeDashboard:
    """The documents that it serves. `change` may be called from another thread."""

    def __init__(self, state: Document) -> None:
        self.state = copy.deepcopy(state)
        self.session: Document = {
            "user": "alice",
            "csrf": "token-of-this-session",
            "canAct": True,
            "rights": {"deletePods": ["*"], "cordon": True, "taintDevices": True},
            "cluster": {"name": "quickstart", "version": "v1.37.0-dray"},
            "history": {"since": _ago(hours=26), "gaps": []},
        }
        self.hidden = ""
        """What stands for claims that may not be seen, if there are any."""
        self.gaps: list[tuple[str, str | None]] = [(_ago(minutes=42), _ago(minutes=38))]
        self.matches: Document | None = None
        self.filter_error: Document | None = None
        self.pages: dict[str, Document] = {}
        self.explanation = explanation()
        self.moments: list[Document] = []
        self.capacity = {"classes": capacity()}
        self.health = health()
        self.actions: list[Document] = []
        self.is_down = False
        self.is_signed_in = True
        self.requests: list[str] = []
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def change(self, **parts: Any) -> None:
        """Change the state as the server would, and tell the pages."""
        self.state["seq"] += 1
        self.state["time"] = _ago()
        for name, entries in parts.items():
            if name == "outage":
                self.state[name] = entries
                continue
            for key, value in entries.items():
                if value is None:
                    self.state[name].pop(key, None)
                else:
                    self.state[name][key] = value
        self.state["counts"] = fleets.counts(self.state["cells"])
        told = {
            "seq": self.state["seq"],
            "time": self.state["time"],
            "counts": self.state["counts"],
            **parts,
        }
        self._send(f"event: change\nid: {told['seq']}\ndata: {json.dumps(told)}\n\n".encode())

    @property
    def is_watched(self) -> bool:
        """Whether a page has its stream open."""
        return bool(self._streams)

    def disconnect(self) -> None:
        """End all streams and refuse new requests, as a server that is gone."""
        self.is_down = True
        self._send(None)

    def _send(self, event: bytes | None) -> None:
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: bytes | None) -> None:
        for queue in self._streams:
            queue.put_nowait(event)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.on_startup.append(self._remember_loop)
        app.router.add_get("/ui/", self._index)
        app.router.add_static("/ui/static", STATIC)
        app.router.add_post("/ui/api/login", self._log_in)
        app.router.add_post("/ui/api/logout", self._log_out)
        app.router.add_get("/ui/api/session", self._json(lambda _: self.session))
        app.router.add_get("/ui/api/stream", self._stream)
        app.router.add_get("/ui/api/filter", self._filter)
        app.router.add_get(
            "/ui/api/explain/{kind}/{ns}/{name}", self._json(lambda _: self.explanation)
        )
        app.router.add_get("/ui/api/device", self._json(lambda r: self._device(r.query["key"])))
        app.router.add_get("/ui/api/{kind:claim|pod}/{ns}/{name}", self._json(self._object))
        app.router.add_get("/ui/api/node/{name}", self._json(self._object))
        app.router.add_get("/ui/api/history/span", self._json(lambda _: self._span()))
        app.router.add_get("/ui/api/history/at", self._json(self._at))
        app.router.add_get("/ui/api/history/device", self._json(self._periods))
        app.router.add_get("/ui/api/history/usage", self._json(self._usage))
        app.router.add_get("/ui/api/capacity", self._json(lambda _: self.capacity))
        app.router.add_get("/ui/api/health", self._json(lambda _: self.health))
        app.router.add_post("/ui/api/actions", self._act)
        return app

    async def _remember_loop(self, _app: web.Application) -> None:
        self._loop = asyncio.get_running_loop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if self.is_down:
            assert request.transport is not None
            request.transport.abort()
            raise web.HTTPServiceUnavailable
        is_api = request.path.startswith("/ui/api/") and not request.path.endswith("/login")
        if is_api and not self.is_signed_in and COOKIE not in request.cookies:
            return _error(401, "you are not logged in", "Open the link that the server printed.")
        answer: web.StreamResponse = await handler(request)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _json(self, document: Any) -> Any:
        async def handler(request: web.Request) -> web.Response:
            return web.json_response(document(request))

        return handler

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(
            text=(STATIC / "index.html").read_text("utf-8"), content_type="text/html"
        )

    async def _log_in(self, request: web.Request) -> web.Response:
        given = await request.json()
        if given not in ({"key": KEY}, {"token": "secret"}):
            return _error(401, "the key or token is not accepted", "Is it complete?")
        answer = web.json_response(self.session)
        answer.set_cookie(COOKIE, "1", httponly=True, samesite="Strict", path="/ui")
        return answer

    async def _log_out(self, _request: web.Request) -> web.Response:
        self.is_signed_in = False
        answer = web.json_response({})
        answer.del_cookie(COOKIE, path="/ui")
        return answer

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", **HEADERS})
        await answer.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        await answer.write(f"event: snapshot\nid: 1\ndata: {json.dumps(self.state)}\n\n".encode())
        self._streams.add(queue)
        try:
            while (event := await queue.get()) is not None:
                await answer.write(event)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass
        finally:
            self._streams.discard(queue)
        return answer

    async def _filter(self, request: web.Request) -> web.Response:
        expression = request.query["expression"]
        if self.filter_error is not None:
            return web.json_response(self.filter_error, status=400)
        if self.matches is not None:
            return web.json_response(self.matches)
        cells = [key for key, cell in self.state["cells"].items() if cell["s"] in expression]
        return web.json_response({"cells": cells, "parts": []})

    def _device(self, key: str) -> Document:
        return self.pages.get(f"device/{key}") or object_page("Device", key.rpartition("/")[2])

    def _object(self, request: web.Request) -> Document:
        path = request.path.removeprefix("/ui/api/")
        kind, _, name = path.partition("/")
        return self.pages.get(path) or object_page(
            {"claim": "ResourceClaim", "pod": "Pod"}.get(kind, "Node"), name
        )

    def _span(self) -> Document:
        until = self.gaps[-1][0] if self.gaps[-1][1] is None else _ago()
        return {"since": self.session["history"]["since"], "until": until, "gaps": self.gaps}

    def _at(self, request: web.Request) -> Document:
        time = request.query["time"]
        for moment in reversed(self.moments):
            if moment["time"] <= time:
                return moment | {"time": time}
        is_known = not any(
            _parse(since) <= _parse(time) and (until is None or _parse(time) < _parse(until))
            for since, until in self.gaps
        )
        minute = int(_parse(time).timestamp() // 60)
        cells = {}
        for number, (key, cell) in enumerate(self.state["cells"].items()):
            if (minute // 7 + number) % 3 == 0 and not cell.get("p"):
                claim = f"past/job-{minute // 7 % 50}-{number}"
                cells[key] = {"st": "in use", "h": [claim], "u": [f"{claim}-0"]}
        holders = {
            key: [{"claim": cell["h"][0], "pods": cell["u"], "user": "bob"}]
            for key, cell in cells.items()
        }
        return {
            "time": time,
            "known": is_known,
            "holders": holders,
            "tainted": [],
            "unhealthy": [],
            "cells": cells,
        }

    def _periods(self, request: web.Request) -> Document:
        key, until = request.query["key"], _parse(request.query["until"])
        since = _parse(request.query["since"])
        length = (until - since) / 12
        periods = []
        for number in range(11):
            start = since + number * length
            is_last = number == 10
            periods.append(
                {
                    "device": key if number % 3 else f"{key}-mig-3g.40gb-0",
                    "claim": self.hidden or f"ml/job-{number}-gpu",
                    "pods": [f"ml/job-{number}"],
                    "user": "alice",
                    "since": _text(start),
                    "until": None if is_last else _text(start + length * (0.6 + number % 3 * 0.3)),
                }
            )
        marks = [
            {
                "device": key,
                "kind": "taint",
                "key": "dray.dev/unhealthy",
                "since": _text(since + 4 * length),
                "until": _text(since + 5 * length),
            }
        ]
        return {"periods": periods, "marks": marks, "gaps": self.gaps}

    def _usage(self, request: web.Request) -> Document:
        since, until = _parse(request.query["since"]), _parse(request.query["until"])
        buckets = int(request.query["buckets"])
        classes = {}
        for name, total in (("gpu.nvidia.com", 15), ("mig.nvidia.com", 32), ("nic.example.com", 8)):
            dice, held, points = random.Random(name), total // 2, []
            for number in range(buckets):
                held = min(total, max(0, held + dice.choice((-1, 0, 0, 0, 1))))
                time = _text(since + (until - since) * number / buckets)
                points.append(
                    {
                        "time": time,
                        "total": total,
                        "held": held,
                        "waiting": max(0, held - total + 3),
                    }
                )
            classes[name] = points
        return {"classes": classes, "gaps": self.gaps}

    async def _act(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Dray-Csrf") != self.session["csrf"]:
            return _error(403, "the header X-Dray-Csrf is not that of the session", "")
        self.actions.append(await request.json())
        return web.json_response({"message": "done"})


def _error(status: int, message: str, advice: str) -> web.Response:
    return web.json_response({"message": message, "advice": advice}, status=status)


def object_page(kind: str, name: str) -> Document:
    """The page of an object of which nothing special is known."""
    gpu = f"{fleets.GPU}/h100-0/gpu-0"
    return {
        "title": name,
        "kind": kind,
        "facts": [
            {"label": "State", "value": "in use"},
            {"label": "Created", "value": _ago(minutes=12)},
            {"label": "DeviceClass", "value": "gpu.nvidia.com"},
            {"label": "Node", "value": "h100-0", "link": {"kind": "node", "name": "h100-0"}},
            {"label": "Owner", "value": "Job train"},
        ],
        "chain": [
            {
                "step": "claim",
                "text": "ml/train-gpu",
                "state": "allocated, reserved",
                "link": {"kind": "claim", "ns": "ml", "name": "train-gpu"},
            },
            {"step": "request", "text": "gpu", "state": "1 of gpu.nvidia.com"},
            {
                "step": "device",
                "text": "gpu-0",
                "state": "in use",
                "link": {"kind": "device", "key": gpu},
            },
            {
                "step": "node",
                "text": "h100-0",
                "state": "ready",
                "link": {"kind": "node", "name": "h100-0"},
            },
            {
                "step": "container",
                "text": "main",
                "state": "running",
                "link": {"kind": "pod", "ns": "ml", "name": "train"},
            },
        ],
        "events": [
            {
                "time": _ago(minutes=12),
                "type": "Normal",
                "reason": "Scheduled",
                "message": "Successfully assigned ml/train to h100-0",
                "count": 1,
            },
            {
                "time": _ago(minutes=11),
                "type": "Warning",
                "reason": "BackOff",
                "message": "Back-off restarting failed container main",
                "count": 4,
            },
        ],
        "yaml": YAML,
    }


def explanation() -> Document:
    return {
        "headline": f"pod ml/dream waits: {fleets.REASON}",
        "text": EXPLAINED,
        "funnel": [
            {"label": "published", "left": 21, "of": 21},
            {"label": "of class gpu.nvidia.com", "left": 13, "of": 21},
            {"label": "architecture is Hopper", "left": 9, "of": 13},
            {"label": "memory is at least 96Gi", "left": 0, "of": 9},
        ],
        "checks": [
            {"text": "quota", "passed": True},
            {"text": "gates", "passed": True},
            {"text": "objects", "passed": True},
            {"text": "devices", "passed": False},
            {"text": "binding", "passed": None},
            {"text": "node", "passed": None},
            {"text": "driver", "passed": None},
            {"text": "containers", "passed": None},
        ],
        "fix": {
            "text": fleets.FIX,
            "command": "dray edit resourceclaimtemplate big -n ml",
        },
    }


def capacity() -> list[Document]:
    return [
        {
            "class": "gpu.nvidia.com",
            "total": 15,
            "held": 7,
            "free": 6,
            "stranded": 0,
            "largest": "80Gi, a whole GPU",
            "fits": 5,
            "limit": "devices of class gpu.nvidia.com",
        },
        {
            "class": "mig.nvidia.com",
            "total": 32,
            "held": 15,
            "free": 17,
            "stranded": 4,
            "largest": "7g.80gb on a100-0",
            "fits": 9,
            "limit": "counters of gpu-1 on a100-0",
        },
        {
            "class": "nic.example.com",
            "total": 8,
            "held": 0,
            "free": 8,
            "stranded": 0,
            "largest": "",
            "fits": None,
            "limit": "",
        },
    ]


def health() -> Document:
    return {
        "components": [
            {"name": "API server", "ok": True, "text": "answers after 2 ms"},
            {"name": "scheduler", "ok": True, "text": "holds the lease"},
            {
                "name": "driver gpu.nvidia.com on l40-0",
                "ok": False,
                "text": "not registered since 09:12",
            },
        ],
        "findings": [
            {
                "severity": "error",
                "text": "Node l40-0 is not ready, and 2 devices on it are held.",
                "fix": "start its node agent",
                "command": "dray node --name l40-0",
            },
            {
                "severity": "warning",
                "text": "Device gpu-3 on h100-0 is tainted NoExecute by its driver.",
                "fix": "look at its driver's log",
                "command": "",
            },
        ],
        "versions": {"dray": "0.1.0", "Kubernetes API": "v1.37.0", "Python": "3.11.7"},
    }


def _ago(*, hours: float = 0, minutes: float = 0) -> str:
    return _text(datetime.now(UTC) - timedelta(hours=hours, minutes=minutes))


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@contextmanager
def serving(dashboard: FakeDashboard, port: int = 0) -> Iterator[str]:
    """Serve in a thread; the address of the page."""
    started: threading.Event = threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        runner = web.AppRunner(dashboard.application(), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        ended = asyncio.Event()
        assert site._server is not None
        sockets = site._server.sockets  # type: ignore[attr-defined]
        found.extend([asyncio.get_running_loop(), ended, sockets[0].getsockname()[1]])
        started.set()
        await ended.wait()
        dashboard._put(None)
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    loop, ended, bound = found
    try:
        yield f"http://127.0.0.1:{bound}/ui/"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)


def churn(dashboard: FakeDashboard, dice: random.Random, amount: int) -> None:
    """Let so many devices change hands in one change."""
    keys = list(dashboard.state["cells"])
    cells = {}
    for key in dice.sample(keys, amount):
        cell = {
            name: value
            for name, value in dashboard.state["cells"][key].items()
            if name in ("n", "s")
        } | {"st": "free"}
        if dice.random() < 0.6:
            number = dice.randrange(10**6)
            fleets.hold(cell, f"churn/claim-{number}", f"churn/pod-{number}")
        cells[key] = cell
    dashboard.change(cells=cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", choices=("mixed", "large"), default="mixed")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--churn", type=int, default=0, help="changes a second")
    options = parser.parse_args()
    dashboard = FakeDashboard(fleets.mixed() if options.fleet == "mixed" else fleets.large())
    with serving(dashboard, options.port) as address:
        print(address, flush=True)
        dice, pause = random.Random(1), threading.Event()
        while not pause.wait(0.1):
            if options.churn and dashboard.is_watched:
                churn(dashboard, dice, max(1, options.churn // 10))


if __name__ == "__main__":
    main()
