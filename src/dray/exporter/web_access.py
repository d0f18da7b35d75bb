"""Decides who may read the metrics, by the web configuration file, which may change meanwhile."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import ssl
from pathlib import Path

from dray.exporter import web_config
from dray.exporter.web_config import WebConfig, WebConfigError

log = logging.getLogger(__name__)

INSTALL = "Install what checks passwords: pip install 'dray[exporter]'"
MAX_PASSWORD_BYTES = 72
"""bcrypt does not look further."""
_UNKNOWN_USER = "$2b$10$abcdefghijklmnopqrstuuxPL6lmFN7vmSAa1BrPFBJKvqDAt5cEm"
"""Checked for users that do not exist, so that the time does not say so."""
_MAX_KNOWN = 64


class WebAccess:
    """Follows a web configuration file. A changed one that is wrong is logged, and not used."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises WebConfigError."""
        self._path = path
        self._config = _checked(web_config.load(path))
        self.tls: ssl.SSLContext | None = None
        if self._config.tls is not None:
            self.tls = self._config.tls.context()
        self._stamps = self._read_stamps()
        self._known: set[bytes] = set()
        """Digests of user, password and hash that were right: bcrypt is slow on purpose."""
        self._checking = asyncio.Semaphore(1)

    async def allows(self, authorization: str) -> bool:
        """Return whether a request with this header may read the metrics."""
        self._reload()
        config = self._config
        if not (config.users or config.token_hashes):
            return True
        scheme, _, credentials = authorization.partition(" ")
        match scheme.lower():
            case "bearer":
                return _is_token(credentials.strip(), config)
            case "basic":
                return await self._is_user(credentials.strip(), config)
        return False

    async def _is_user(self, credentials: str, config: WebConfig) -> bool:
        try:
            decoded = base64.b64decode(credentials, validate=True)
        except (ValueError, binascii.Error):
            return False
        name, colon, password = decoded.partition(b":")
        if not colon or b"\0" in password:
            return False
        expected = config.users.get(name.decode("utf-8", "replace"))
        hashed = expected or _UNKNOWN_USER
        digest = hashlib.sha256(b"\0".join((name, password, hashed.encode()))).digest()
        if digest in self._known:
            return True
        # One at a time: many wrong passwords do not take more than one core.
        async with self._checking:
            is_right = await asyncio.to_thread(_is_password, password, hashed)
        if not (is_right and expected):
            return False
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known.add(digest)
        return True

    def _reload(self) -> None:
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            config = _checked(web_config.load(self._path))
            if (config.tls is None) is not (self.tls is None):
                raise WebConfigError(f"{self._path}: TLS begins or ends only with a restart")
            if config.tls is not None and self.tls is not None:
                config.tls.load(self.tls)
        except WebConfigError as error:
            log.error("the web configuration stays as it was: %s", error)
            return
        self._config = config
        self._stamps = self._read_stamps()

    def _read_stamps(self) -> list[tuple[int, int] | None]:
        """Return what changes with the files."""
        files = self._config.tls.files() if self._config.tls is not None else []
        return [_stamp(path) for path in (self._path, *files)]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _checked(config: WebConfig) -> WebConfig:
    """Return a configuration. Raises WebConfigError where it cannot be followed here."""
    if config.users:
        try:
            import bcrypt  # noqa: F401
        except ImportError as error:
            raise WebConfigError(f"basic_auth_users needs bcrypt. {INSTALL}") from error
    return config


def _is_password(password: bytes, hashed: str) -> bool:
    import bcrypt

    return bcrypt.checkpw(password[:MAX_PASSWORD_BYTES], hashed.encode())


def _is_token(token: str, config: WebConfig) -> bool:
    digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
    found = [hmac.compare_digest(digest, known) for known in config.token_hashes.values()]
    return any(found)
