"""URLs as Go's package net/url reads them (Go 1.26), down to the words of its errors."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import ClassVar

from dray.api.formats import gotext
from dray.cel import types
from dray.cel.runtime import ip_addresses

_HEXADECIMAL = "0123456789abcdefABCDEF"
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_IN_PATH = _UNRESERVED | frozenset("$&+,/:;=@")
_IN_HOST = _UNRESERVED | frozenset("!$&'()*+,;=:[]<>\"")
_IN_USER = _UNRESERVED | frozenset("$&+,;=")
_IN_FRAGMENT = _UNRESERVED | frozenset("$&+,/:;=?@!()*")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)?:", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ESCAPED_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/]|%..)*", re.ASCII | re.DOTALL)


class UrlError(ValueError):
    """The text is no URL; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Url:
    cel_type: ClassVar[types.Type] = types.URL

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    """As it was written, a password included; None where there is no user."""
    host: str = ""
    path: str = ""
    raw_path: str = ""
    """The path as it was written, where escaping `path` would give another."""
    query: str = ""
    forces_query: bool = False
    omits_host: bool = False
    fragment: str = ""

    def hostname(self) -> str:
        return _split_host_port(self.host)[0]

    def port(self) -> str:
        return _split_host_port(self.host)[1]

    def escaped_path(self) -> str:
        if self.raw_path and _ESCAPED_PATH.fullmatch(self.raw_path):
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path, _IN_PATH)

    def query_values(self) -> dict[str, list[str]]:
        """Return parameters in the order they first appear, without those that are invalid."""
        parameters: dict[str, list[str]] = {}
        for parameter in self.query.split("&"):
            if not parameter or ";" in parameter:
                continue
            key, _, value = parameter.partition("=")
            try:
                parameters.setdefault(_unescape_query(key), []).append(_unescape_query(value))
            except UrlError:
                continue
        return {key: values for key, values in parameters.items() if values}

    def __str__(self) -> str:
        text = f"{self.scheme}:" if self.scheme else ""
        text += self.opaque if self.opaque else self._hierarchical_text(bool(text))
        if self.forces_query or self.query:
            text += f"?{self.query}"
        return f"{text}#{_escape(self.fragment, _IN_FRAGMENT)}" if self.fragment else text

    def _hierarchical_text(self, has_scheme: bool) -> str:
        path = self.escaped_path()
        authority = ""
        if has_scheme or self.host or self.user is not None:
            is_omitted = self.omits_host and not self.host and self.user is None
            if not is_omitted and (self.host or path or self.user is not None):
                user = "" if self.user is None else f"{self.user}@"
                authority = f"//{user}{_escape(self.host, _IN_HOST)}"
        if path and not path.startswith("/") and self.host:
            path = f"/{path}"
        elif not authority and not has_scheme and ":" in path.partition("/")[0]:
            path = f"./{path}"
        return authority + path


def parse_request(text: str) -> Url:
    """Parse as Go's url.ParseRequestURI: an absolute URL or path, `#` taken literally."""
    return _parse(text, is_request=True)


def parse(text: str) -> Url:
    """Parse as Go's url.Parse."""
    before, _, fragment = text.partition("#")
    url = _parse(before, is_request=False)
    if not fragment:
        return url
    try:
        return dataclasses.replace(url, fragment=_unescape(fragment))
    except UrlError as error:
        raise _located(text, error) from None


def _located(text: str, error: UrlError) -> UrlError:
    return UrlError(f"parse {gotext.quote(text)}: {error}")


def _parse(text: str, is_request: bool) -> Url:
    try:
        return _parse_parts(text, is_request)
    except UrlError as error:
        raise _located(text, error) from None


def _parse_parts(text: str, is_request: bool) -> Url:
    if any(character < " " or character == "\x7f" for character in text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and is_request:
        raise UrlError("empty url")
    if text == "*":
        return Url(path="*")
    scheme, rest = _split_scheme(text)
    forces_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme=scheme, opaque=rest, query=query, forces_query=forces_query)
        _check_rootless(rest, is_request)
    user, host, omits_host = None, "", False
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _parse_authority(scheme, authority)
    elif scheme and rest.startswith("/"):
        omits_host = True
    path = _unescape(rest)
    raw_path = rest if _escape(path, _IN_PATH) != rest else ""
    return Url(scheme, "", user, host, path, raw_path, query, forces_query, omits_host)


def _split_scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if not match:
        return "", text
    if not match[1]:
        raise UrlError("missing protocol scheme")
    return match[1].lower(), text[match.end() :]


def _check_rootless(rest: str, is_request: bool) -> None:
    if is_request:
        raise UrlError("invalid URI for request")
    if ":" in rest.partition("/")[0]:
        raise UrlError("first path segment in URL cannot contain colon")


def _parse_authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    parsed_host = _parse_host(scheme, host)
    if not at:
        return None, parsed_host
    if not _USERINFO.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    escaped = _escape(_unescape(name), _IN_USER)
    if colon:
        escaped += ":" + _escape(_unescape(password), _IN_USER)
    return escaped, parsed_host


def _parse_host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _parse_ip_literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        # Database URLs name several hosts.
        start = last if scheme in ("postgres", "postgresql") else first
        _check_port(host[start:])
    return _unescape_host(host)


def _parse_ip_literal(host: str) -> str:
    close = host.rfind("]")
    if close < 0:
        raise UrlError("missing ']' in host")
    port = host[close + 1 :]
    _check_port(port)
    name, zone_mark, zone = host[1:close].partition("%25")
    unescaped = _unescape_host(name)
    if zone_mark:
        unescaped += "%" + _unescape(zone)
    try:
        address = ip_addresses.parse_address(unescaped)
    except ip_addresses.AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise UrlError("invalid IP-literal")
    return f"[{unescaped}]{port}"


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {gotext.quote(port)} after host")


def _split_host_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(colon + port):
        name, port = host, ""
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return name, port


def _unescape(text: str) -> str:
    """Decode percent escapes; bytes that are not UTF-8 are replaced."""
    if "%" not in text:
        return text
    octets = bytearray()
    position = 0
    while position < len(text):
        if text[position] != "%":
            octets += text[position].encode()
            position += 1
            continue
        octets.append(_escaped_octet(text[position : position + 3]))
        position += 3
    return octets.decode("utf-8", "replace")


def _escaped_octet(escape: str) -> int:
    if len(escape) < 3 or any(digit not in _HEXADECIMAL for digit in escape[1:]):
        raise UrlError(f"invalid URL escape {gotext.quote(escape)}")
    return int(escape[1:], 16)


def _unescape_query(text: str) -> str:
    return _unescape(text.replace("+", " "))


def _unescape_host(host: str) -> str:
    """Decode a host, which may escape only non-ASCII characters and `%`."""
    for position, character in enumerate(host):
        escape = host[position : position + 3]
        if character == "%":
            if _escaped_octet(escape) < 0x80 and escape != "%25":
                raise UrlError(f"invalid URL escape {gotext.quote(escape)}")
        elif character < "\x80" and character not in _IN_HOST:
            quoted = gotext.quote(character)
            raise UrlError(f"invalid character {quoted} in host name")
    return _unescape(host)


def _escape(text: str, kept: frozenset[str]) -> str:
    if all(character in kept for character in text):
        return text
    return "".join(
        character if character in kept else "".join(f"%{octet:02X}" for octet in character.encode())
        for character in text
    )
