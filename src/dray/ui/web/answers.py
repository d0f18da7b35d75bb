"""Answers to a browser: JSON, files and errors, with the headers that every answer has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from dray.ui.pages.page_errors import PageError
from dray.ui.web.static_files import StaticFile

MAX_BODY_BYTES: Final = 2**14
BODY_SECONDS: Final = 10.0
JSON_TYPE: Final = "application/json"
POLICY: Final = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
EVERY_ANSWER: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Else the versions of Python and its libraries are told to everybody.
    "server": "dray",
}
API_ANSWER: Final = {**EVERY_ANSWER, "cache-control": "no-store"}


def json_answer(
    document: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return a document as JSON."""
    return web.Response(
        status=status,
        body=msgspec.json.encode(document),
        content_type=JSON_TYPE,
        headers={**API_ANSWER, **(headers or {})},
    )


def error_answer(error: PageError) -> web.Response:
    """Return an error as JSON."""
    return json_answer(error.document, error.status)


def file_answer(file: StaticFile, request: web.BaseRequest) -> web.Response:
    """Return a file of the page, compressed if the browser accepts that."""
    headers = {
        **EVERY_ANSWER,
        "content-type": file.content_type,
        "etag": file.etag,
        "cache-control": "no-cache",
        "vary": "accept-encoding",
    }
    if file.etag in request.headers.get("if-none-match", ""):
        return web.Response(status=304, headers=headers)
    body = file.body
    if file.compressed and "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        body = file.compressed
    return web.Response(body=body, headers=headers)


async def json_body(request: web.BaseRequest) -> dict[str, Any]:
    """Return the JSON object that a request has. Raises PageError."""
    # Forms, which a page of somebody else could send, have other types.
    if request.content_type != JSON_TYPE:
        raise PageError(400, "the body must be JSON", f"Send content-type: {JSON_TYPE}.")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise PageError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            document = msgspec.json.decode(await request.read())
    except web.HTTPRequestEntityTooLarge as error:
        raise PageError(413, f"the body is longer than {MAX_BODY_BYTES} bytes") from error
    except TimeoutError as error:
        raise PageError(400, "the body did not arrive in time") from error
    except (msgspec.DecodeError, web.RequestPayloadError, RecursionError) as error:
        raise PageError(400, "the body is not JSON") from error
    if not isinstance(document, dict):
        raise PageError(400, "the body must be a JSON object")
    return document
