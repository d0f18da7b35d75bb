"""URLs are read as Go's package net/url does."""

from __future__ import annotations

import pytest

from dray.cel.runtime import urls
from dray.cel.runtime.urls import UrlError


@pytest.mark.parametrize(
    "text",
    [
        "http://example.com",
        "https://user:secret@example.com:80/a/b?x=1&y=2#top",
        "https://[::1]:8080/path",
        "http://[fe80::1%25eth0]/",
        "mailto:joe@example.com",
        "/absolute/path?query",
        "file:///etc/hosts",
        "http://example.com?",
        "/a%2Fb",
        "*",
        "//example.com/x",
    ],
)
def test_text_round_trips(text: str) -> None:
    assert str(urls.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "host", "hostname", "port", "path"),
    [
        ("https://example.com:80/", "example.com:80", "example.com", "80", "/"),
        ("https://[::1]:80/", "[::1]:80", "::1", "80", "/"),
        ("https://[::1]/", "[::1]", "::1", "", "/"),
        ("https://example.com:", "example.com:", "example.com", "", ""),
        ("https://ex%C3%A4mple.com/p a", "exämple.com", "exämple.com", "", "/p%20a"),
        ("/p%2Fq!", "", "", "", "/p%2Fq!"),
        ("https:///path", "", "", "", "/path"),
    ],
)
def test_parts(text: str, host: str, hostname: str, port: str, path: str) -> None:
    url = urls.parse(text)
    assert (url.host, url.hostname(), url.port(), url.escaped_path()) == (
        host,
        hostname,
        port,
        path,
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("a=1&b=2&a=3", {"a": ["1", "3"], "b": ["2"]}),
        ("a", {"a": [""]}),
        ("a=b+c%20d", {"a": ["b c d"]}),
        ("a=1;b=2&c=3", {"c": ["3"]}),
        ("a=%zz&b=1", {"b": ["1"]}),
        ("&&", {}),
    ],
)
def test_queries(query: str, found: dict[str, list[str]]) -> None:
    assert urls.parse(f"/?{query}").query_values() == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty url"),
        ("relative", "invalid URI for request"),
        ("a:b:c", None),
        (":80/x", "missing protocol scheme"),
        ("http://a b.com/", 'invalid character " " in host name'),
        ("http://a.com:port/", 'invalid port ":port" after host'),
        ("http://a.com:80:80/", 'invalid port ":80:80" after host'),
        ("http://[::1/", "missing ']' in host"),
        ("http://a[::1]/", "invalid IP-literal"),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://u ser@a.com/", "net/url: invalid userinfo"),
        ("http://a.com/%zz", 'invalid URL escape "%zz"'),
        ("http://a.com/%a", 'invalid URL escape "%a"'),
        ("http://%41.com/", 'invalid URL escape "%41"'),
        ("/a\tb", "net/url: invalid control character in URL"),
    ],
)
def test_requests(text: str, message: str | None) -> None:
    if message is None:
        assert urls.parse_request(text)
        return
    with pytest.raises(UrlError) as caught:
        urls.parse_request(text)
    shown = text.replace("\t", "\\t")
    assert str(caught.value) == f'parse "{shown}": {message}'


def test_a_relative_reference_is_a_url_but_no_request() -> None:
    assert urls.parse("a/b:c").path == "a/b:c"
    with pytest.raises(UrlError, match="first path segment in URL cannot contain colon"):
        urls.parse("a_b:c/d")
