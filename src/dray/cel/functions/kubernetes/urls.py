"""Kubernetes' URL library (apiserver, cel/library/urls.go)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dray.cel.functions import prices
from dray.cel.functions.dispatching import charged, function
from dray.cel.functions.overloads import Function, Library, Overload, member
from dray.cel.runtime import urls
from dray.cel.runtime.urls import Url, UrlError
from dray.cel.runtime.values import EvaluationError
from dray.cel.types import BOOL, STRING, URL, Type, list_of, map_of


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


def _accessor(name: str, id: str, call: Callable[[Any], Any], result: Type = STRING) -> Function:
    return function(name, member(id, (URL,), result, call))


LIBRARY: Library = (
    charged("url", Overload("string_to_url", (STRING,), URL, parse, *prices.SCAN_KEEPING_SIZE)),
    function("isURL", Overload("is_url_string", (STRING,), BOOL, is_url)),
    _accessor("getScheme", "url_get_scheme", operator.attrgetter("scheme")),
    _accessor("getHost", "url_get_host", operator.attrgetter("host")),
    _accessor("getHostname", "url_get_hostname", Url.hostname),
    _accessor("getPort", "url_get_port", Url.port),
    _accessor("getEscapedPath", "url_get_escaped_path", Url.escaped_path),
    _accessor("getQuery", "url_get_query", Url.query_values, map_of(STRING, list_of(STRING))),
)
