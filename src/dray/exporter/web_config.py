"""The web configuration file that Prometheus' exporters share: TLS, users and tokens.

The format is that of github.com/prometheus/exporter-toolkit, with `bearer_token_hashes` besides:
the SHA-256 of a token for each name. What this server does not honour is refused, never ignored.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import yaml

MAX_BYTES = 1 << 20
_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
Choice = TypeVar("Choice")

_FILES = ("cert_file", "key_file", "client_ca_file")
_TLS_FIELDS = (*_FILES, "client_auth_type", "min_version", "max_version")
_NOT_HONOURED = (
    "cert", "key", "cipher_suites", "prefer_server_cipher_suites", "curve_preferences",
    "client_allowed_sans",
)  # fmt: skip


class WebConfigError(ValueError):
    """The file cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The content of `tls_server_config`."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    clients: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def files(self) -> list[Path]:
        return [path for path in (self.cert_file, self.key_file, self.client_ca_file) if path]

    def context(self) -> ssl.SSLContext:
        """Return the context of the server. Raises WebConfigError for files that do not work."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version, context.maximum_version = self.min_version, self.max_version
        self.load(context)
        context.verify_mode = self.clients
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Read the files into a context, also again when they have changed."""
        try:
            # Without a password the terminal would be asked for that of an encrypted key.
            context.load_cert_chain(self.cert_file, self.key_file, password="")
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(map(str, self.files()))
            reason = getattr(error, "strerror", None) or str(error)
            raise WebConfigError(f"{names}: cannot be used: {reason}") from error


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The content of a file; without users and tokens everybody may read the metrics."""

    tls: TlsConfig | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    """The bcrypt hash of the password of each user."""
    token_hashes: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each token, in hexadecimal."""


def load(path: Path) -> WebConfig:
    """Read a file. Raises WebConfigError with the line of what is wrong."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise WebConfigError(f"{path}: cannot be read: {reason}") from error
    if len(text) > MAX_BYTES:
        raise WebConfigError(f"{path}: is larger than {MAX_BYTES} bytes")
    return _Reader(path).config(text)


class _Reader:
    """Reads one file; errors name it and the line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def config(self, text: str) -> WebConfig:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise WebConfigError(f"{self._path}, line {line}: {error.problem}") from error
        tls, users, tokens = None, {}, {}
        for name, key, value in self._fields(root, "") if root is not None else ():
            match name:
                case "tls_server_config":
                    tls = self._tls(value)
                case "basic_auth_users":
                    users = self._hashes(value, name, _BCRYPT, "a bcrypt hash: htpasswd -nBC 10")
                case "bearer_token_hashes":
                    tokens = self._hashes(
                        value, name, _SHA256, "the SHA-256 of the token: sha256sum"
                    )
                case "http_server_config":
                    self._check_http(value)
                case _:
                    raise self._unknown(key, name)
        return WebConfig(tls, users, tokens)

    def _tls(self, node: yaml.Node) -> TlsConfig:
        found: dict[str, yaml.Node] = {}
        for name, key, value in self._fields(node, "tls_server_config"):
            if name in _NOT_HONOURED:
                raise self._error(key, f"tls_server_config.{name} is not supported; remove it")
            if name not in _TLS_FIELDS:
                raise self._unknown(key, f"tls_server_config.{name}")
            found[name] = value
        files = {name: self._file(found[name]) for name in _FILES if name in found}
        for name in ("cert_file", "key_file"):
            if name not in files:
                raise self._error(node, f"tls_server_config has no {name}")
        clients = self._choice(found.get("client_auth_type"), _CLIENTS, ssl.CERT_NONE)
        if clients is not ssl.CERT_NONE and "client_ca_file" not in files:
            raise self._error(node, "client_auth_type needs client_ca_file")
        if clients is ssl.CERT_NONE and "client_ca_file" in files:
            raise self._error(
                found["client_ca_file"], "client_ca_file needs a client_auth_type that uses it"
            )
        return TlsConfig(
            files["cert_file"],
            files["key_file"],
            files.get("client_ca_file"),
            clients,
            self._choice(found.get("min_version"), _VERSIONS, ssl.TLSVersion.TLSv1_2),
            self._choice(found.get("max_version"), _VERSIONS, ssl.TLSVersion.TLSv1_3),
        )

    def _check_http(self, node: yaml.Node) -> None:
        for name, key, value in self._fields(node, "http_server_config"):
            if name != "http2" or self._text(value) != "false":
                raise self._error(
                    key, f"http_server_config.{name} is not supported; only http2: false is"
                )

    def _hashes(
        self, node: yaml.Node, field_name: str, form: re.Pattern[str], expected: str
    ) -> dict[str, str]:
        found = {}
        for name, _, value in self._fields(node, field_name):
            text = self._text(value)
            if not form.fullmatch(text):
                raise self._error(value, f"{field_name}.{name} is not {expected}")
            found[name] = text
        return found

    def _fields(
        self, node: yaml.Node, field_name: str
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{field_name or 'the file'} is not a mapping")
        seen = set()
        for key, value in node.value:
            name = self._text(key)
            if name in seen:
                raise self._error(key, f"{name} is there twice")
            seen.add(name)
            yield name, key, value

    def _file(self, node: yaml.Node) -> Path:
        """Return a path, which may be relative to the directory of the file."""
        return self._path.parent / self._text(node)

    def _choice(
        self, node: yaml.Node | None, choices: Mapping[str, Choice], default: Choice
    ) -> Choice:
        if node is None:
            return default
        text = self._text(node)
        if text not in choices:
            raise self._error(node, f"{text} is not supported; use {', '.join(choices)}")
        return choices[text]

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, "a text is expected here")
        return str(node.value)

    def _unknown(self, node: yaml.Node, name: str) -> WebConfigError:
        return self._error(node, f"there is no field {name}")

    def _error(self, node: yaml.Node, problem: str) -> WebConfigError:
        return WebConfigError(f"{self._path}, line {node.start_mark.line + 1}: {problem}")
