"""Keys and certificates of the clusters of this process: made once, gone when it ends."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Final

from dray.apiserver.access.certificates import Authority, KeyPair
from dray.client.kubeconfig import ClusterConnection
from dray.cluster.assembly import ADMIN

LOOPBACK: Final = "127.0.0.1"


@functools.cache
def directory() -> Path:
    made = Path(tempfile.mkdtemp(prefix="dray-keys-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def authority() -> Authority:
    return Authority.load_or_create(directory())


@functools.cache
def server_pair() -> KeyPair:
    return authority().server_pair((LOOPBACK, "localhost"))


def connection(url: str) -> ClusterConnection:
    """Return the administrator's connection to a cluster."""
    pair = _administrator()
    return ClusterConnection(
        url,
        certificate_authority=authority().certificate,
        client_certificate=pair.certificate,
        client_key=pair.key,
    )


@functools.cache
def _administrator() -> KeyPair:
    return authority().client_pair(ADMIN.name, sorted(ADMIN.groups))
