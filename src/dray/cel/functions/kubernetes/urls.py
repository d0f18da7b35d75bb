"""Kubernetes' URL library (apiserver, cel/library/urls.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.cel import types
from dray.cel.functions import cost_estimates, dispatching, runtime_costs
from dray.cel.functions.overloads import Function, Library, Overload
from dray.cel.runtime import urls
from dray.cel.runtime.urls import Url, UrlError
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import Type


def parse(text: str) -> Url:
    try:
        urls.parse_request(text)
        return urls.parse(text)
    except UrlError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    try:
        urls.parse_request(text)
    except UrlError:
        return False
    return True


def scheme(url: Url) -> str:
    return url.scheme


def host(url: Url) -> str:
    return url.host


def _accessor(name: str, id: str, result: Type, call: Callable[[Any], Any]) -> Function:
    return dispatching.function(name, Overload(id, (types.URL,), result, call, member=True))


LIBRARY = Library(
    "URLs",
    (
        dispatching.function(
            "url",
            Overload(
                "string_to_url",
                (types.STRING,),
                types.URL,
                parse,
                estimate=cost_estimates.scan_keeping_size,
                cost=runtime_costs.scan,
            ),
            dispatch_cost=runtime_costs.scan,
        ),
        dispatching.function(
            "isURL", Overload("is_url_string", (types.STRING,), types.BOOL, is_url)
        ),
        _accessor("getScheme", "url_get_scheme", types.STRING, scheme),
        _accessor("getHost", "url_get_host", types.STRING, host),
        _accessor("getHostname", "url_get_hostname", types.STRING, Url.hostname),
        _accessor("getPort", "url_get_port", types.STRING, Url.port),
        _accessor("getEscapedPath", "url_get_escaped_path", types.STRING, Url.escaped_path),
        _accessor(
            "getQuery",
            "url_get_query",
            types.map_of(types.STRING, types.list_of(types.STRING)),
            Url.query_values,
        ),
    ),
)
