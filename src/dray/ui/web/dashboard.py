"""The dashboard as a handler of requests below /ui/: files, log in, session, stream and pages."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from dray.api import errors
from dray.ui.pages.page_errors import PageError
from dray.ui.people import People, Person
from dray.ui.web import answers, request_checks, sessions, static_files, streams
from dray.ui.web.request_checks import DashboardSite
from dray.ui.web.sessions import BrowserSession, FailureCounter, OneTimeKey, Sessions

if TYPE_CHECKING:
    from dray.ui.pages.backend import Backend

log = logging.getLogger(__name__)

ROOT: Final = "/ui"
API: Final = request_checks.API
STATIC: Final = "/ui/static/"
COOKIE: Final = "dray-ui"
CSRF_HEADER: Final = "X-Dray-Csrf"
WRONG_SECONDS: Final = 1.0
"""How long the answer to a wrong key or token takes."""
LOGIN_SECONDS: Final = 10.0
"""The time for finding out what somebody who logs in may read."""
WAITING_LOGINS: Final = 32
STREAMS_LIMIT: Final = 1024
SWEEP_SECONDS: Final = 5.0
MAX_SECRET: Final = 8192
PAGE_SECONDS: Final = 30.0
LOG_IN = "Open the link that the server printed, or log in with a token."


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """The cluster of a dashboard, and what it offers."""

    name: str
    """The name of the cluster."""
    version: str
    allows_actions: bool = False
    """Whether people may change what they have the right to."""
    history: Path | None = None
    """The file in which a recorder writes the history."""


class Dashboard:
    """Answers requests; `run` has to run meanwhile."""

    def __init__(
        self,
        people: People,
        load: Callable[[], Awaitable[Backend]],
        settings: DashboardSettings,
    ) -> None:
        """`load` is called for the first person who logs in."""
        self._people, self._load, self._settings = people, load, settings
        self._loading = asyncio.Lock()
        self._loaded: Backend | None = None
        self._group: asyncio.TaskGroup | None = None
        self._sessions = Sessions()
        self._key: OneTimeKey | None = None
        self._write_key: Callable[[str], None] | None = None
        self._failures = FailureCounter()
        self._logins = 0
        self._streams: set[asyncio.Task[Any]] = set()
        self._files = static_files.load()

    def new_key(self) -> str:
        """Return a new key for a link; an older one is void."""
        self._key = OneTimeKey(_now())
        return self._key.text

    def keep_key(self, write: Callable[[str], None]) -> str:
        """Return a new key. While this runs, `write` gets another one whenever a key is spent."""
        self._write_key = write
        return self._written_key(write)

    def _written_key(self, write: Callable[[str], None]) -> str:
        key = self.new_key()
        try:
            write(key)
        except OSError as error:
            log.warning("the link to the dashboard cannot be written: %s", error)
        return key

    async def run(self) -> None:
        """Follow clusters while people look at them, and end sessions, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                while True:
                    await asyncio.sleep(SWEEP_SECONDS)
                    for session in self._sessions.ended(_now()):
                        self._end(session)
                    if self._write_key and self._key and self._key.is_spent(_now()):
                        self._written_key(self._write_key)
        finally:
            self._group = self._loaded = None
            self._sessions = Sessions()

    def end_streams(self) -> None:
        """End all streams, because the server closes."""
        for task in tuple(self._streams):
            task.cancel()

    def user_of(self, request: web.BaseRequest) -> str:
        """Return the name of the user who has a session; "" without one."""
        session = self._session(request)
        return session.person.name if session is not None else ""

    async def answer(self, request: web.BaseRequest, site: DashboardSite) -> web.StreamResponse:
        """Answer a request below /ui."""
        try:
            request_checks.check(request, site)
            return await self._routed(request, site)
        except PageError as error:
            return answers.error_answer(error)
        except errors.StatusError as error:
            return answers.error_answer(_of_server(error))
        except ConnectionError:
            raise
        except Exception:
            if request.writer.output_size:
                raise
            # This answer, too, has the headers of all.
            log.exception("%s %s failed", request.method, request.rel_url.raw_path)
            return answers.error_answer(PageError(500, "the server failed; its log says why"))

    async def _routed(self, request: web.BaseRequest, site: DashboardSite) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path.startswith(API):
            return await self._api(request, path.removeprefix(API), site)
        if request.method not in ("GET", "HEAD"):
            raise PageError(405, f"{request.method} is not possible here")
        if path == ROOT:
            return web.Response(status=308, headers={**answers.EVERY_ANSWER, "location": "/ui/"})
        name = static_files.INDEX if path == f"{ROOT}/" else path.removeprefix(STATIC)
        file = self._files.get(name)
        if file is None or not (path.startswith(STATIC) or path == f"{ROOT}/"):
            raise PageError(404, "there is no such page", "Open /ui/.")
        return answers.file_answer(file, request)

    async def _api(
        self, request: web.BaseRequest, path: str, site: DashboardSite
    ) -> web.StreamResponse:
        match request.method, path:
            case "POST", "login":
                return await self._log_in(request, site)
            case _, "login":
                raise PageError(405, "log in with POST")
        session = self._session(request)
        if session is None:
            raise PageError(401, "you are not logged in, or your session has ended", LOG_IN)
        match request.method, path:
            case "GET", "session":
                return answers.json_answer(await self._document(session))
            case "GET", "stream":
                return await self._stream(request, session)
            case "POST", "logout":
                self._check_csrf(request, session)
                self._end(session)
                return answers.json_answer({}, headers={"set-cookie": _cookie(request, site, "")})
            case "POST", "actions":
                return await self._act(request, session)
        if request.method != "GET":
            raise PageError(405, f"{request.method} is not possible here")
        return await self._page(request, path, session)

    async def _page(
        self, request: web.BaseRequest, path: str, session: BrowserSession
    ) -> web.Response:
        """Answer what takes longer; of each session only some at the same time."""
        if session.requests >= sessions.REQUESTS_OF_SESSION:
            raise PageError(429, "too many requests at the same time", "Try again.")
        session.requests += 1
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                found = await self._backend.answer(
                    session.member, path, dict(request.rel_url.query)
                )
                return answers.json_answer(found)
        except TimeoutError as error:
            raise PageError(503, "the answer took too long", "Try again in a while.") from error
        finally:
            session.requests -= 1

    async def _act(self, request: web.BaseRequest, session: BrowserSession) -> web.Response:
        self._check_csrf(request, session)
        if not self._settings.allows_actions:
            advice = "Start it with: dray ui --allow-actions"
            raise PageError(403, "this dashboard changes nothing", advice)
        asked = await answers.json_body(request)
        done = await self._backend.act(session.member, asked)
        log.info("%s: %s", session.person.name, done)
        return answers.json_answer({"message": done})

    async def _log_in(self, request: web.BaseRequest, site: DashboardSite) -> web.Response:
        if self._logins >= WAITING_LOGINS:
            raise PageError(429, "too many people log in at the same time", "Try again.")
        self._logins += 1
        try:
            given = await answers.json_body(request)
            key = self._key if "key" in given else None
            person = await self._person(given, request)
            if person is None:
                await asyncio.sleep(WRONG_SECONDS)
                raise PageError(401, "the key or token is not accepted", _advice(given))
            try:
                session = await self._opened(person)
            except BaseException:
                if key is not None:
                    key.give_back()
                raise
        finally:
            self._logins -= 1
        cookie = _cookie(request, site, session.identity)
        return answers.json_answer(await self._document(session), headers={"set-cookie": cookie})

    async def _opened(self, person: Person) -> BrowserSession:
        """Return a new session. Raises PageError, and the errors of the API server."""
        if not self._sessions.has_room(person):
            raise PageError(429, "there are too many sessions", "Log out somewhere else.")
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                member = await (await self._ready()).join(person)
        except TimeoutError as error:
            advice = "Try again in a while; the key of a link still works."
            raise PageError(503, "the API server does not answer", advice) from error
        return self._sessions.open(person, member, _now())

    async def _person(self, given: dict[str, Any], request: web.BaseRequest) -> Person | None:
        """Return who logs in: with a key, a token or the certificate of the connection."""
        match given:
            case {"key": str(key)} if len(key) <= MAX_SECRET:
                is_right = self._key is not None and self._key.redeem(key, _now())
                return self._people.of_key() if is_right else None
            case {"token": str(token)} if len(token) <= MAX_SECRET:
                address = request.remote or ""
                if self._failures.is_over(address, _now()):
                    raise PageError(429, "there were too many wrong tokens", "Try again later.")
                person = await self._people.of_token(token.strip())
                if person is None:
                    self._failures.add(address, _now())
                return person
            case {"certificate": True}:
                transport = request.transport
                found = transport.get_extra_info("peercert") if transport is not None else None
                return await self._people.of_certificate(found) if found else None
        raise PageError(400, "a key, a token or certificate: true is needed", LOG_IN)

    async def _document(self, session: BrowserSession) -> dict[str, Any]:
        about = await self._backend.about(
            session.member, allows_actions=self._settings.allows_actions
        )
        return {
            "user": session.person.name,
            "csrf": session.csrf,
            "cluster": {"name": self._settings.name, "version": self._settings.version},
            **about,
        }

    async def _stream(
        self, request: web.BaseRequest, session: BrowserSession
    ) -> web.StreamResponse:
        if session.streams >= sessions.STREAMS_OF_SESSION or len(self._streams) >= STREAMS_LIMIT:
            raise PageError(429, "too many streams are open", "Close other windows.")
        self._backend.viewer(session.member)
        session.streams += 1
        try:
            with self._streaming():
                return await streams.send(request, session)
        finally:
            session.streams -= 1

    @contextlib.contextmanager
    def _streaming(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            yield
        finally:
            self._streams.discard(task)

    @property
    def _backend(self) -> Backend:
        """Return what answers those who have a session: it was loaded when they logged in."""
        assert self._loaded is not None
        return self._loaded

    async def _ready(self) -> Backend:
        async with self._loading:
            if self._group is None:
                raise PageError(503, "the dashboard is starting", "Try again.")
            if self._loaded is None:
                self._loaded = await self._load()
                self._group.create_task(self._loaded.run())
            return self._loaded

    def _session(self, request: web.BaseRequest) -> BrowserSession | None:
        return self._sessions.find(_given_cookie(request), _now())

    def _check_csrf(self, request: web.BaseRequest, session: BrowserSession) -> None:
        given = request.headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), session.csrf.encode()):
            raise PageError(403, f"the header {CSRF_HEADER} is not that of the session")

    def _end(self, session: BrowserSession) -> None:
        if not session.is_over:
            self._sessions.close(session)
            self._backend.leave(session.member)


def _cookie_name(request: web.BaseRequest) -> str:
    """Return the name of the cookie: browsers send cookies to every port of a host."""
    transport = request.transport
    own = transport.get_extra_info("sockname") if transport is not None else None
    return f"{COOKIE}-{own[1]}" if own else COOKIE


def _given_cookie(request: web.BaseRequest) -> str:
    return request.cookies.get(_cookie_name(request), "")


def _cookie(request: web.BaseRequest, site: DashboardSite, value: str) -> str:
    """Return the header that sets a cookie; without a value, one that removes it."""
    secure = "; Secure" if site.is_secure else ""
    age = int(sessions.SESSION_SECONDS) if value else 0
    return (
        f"{_cookie_name(request)}={value}; Path=/ui; Max-Age={age}; HttpOnly; "
        f"SameSite=Strict{secure}"
    )


def _advice(given: dict[str, Any]) -> str:
    if "key" in given:
        return (
            "A link works once, for some minutes. `dray up` keeps the next one in the file "
            "dashboard-link of its data directory; for another cluster start `dray ui` again."
        )
    return "Is it complete, and has it not expired?"


def _of_server(error: errors.StatusError) -> PageError:
    """Return an error of the API server as one of the page."""
    status = error.code if error.code in (400, 401, 403, 404, 409, 422, 429) else 503
    return PageError(400 if status == 422 else status, str(error))


def _now() -> float:
    return asyncio.get_running_loop().time()
