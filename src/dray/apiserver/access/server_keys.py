"""The keys of an API server: its certificate authority, and the keys of its tokens.

They are in its data directory. Several servers on one store are given the same files instead, so
that each accepts the certificates and tokens of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dray.api.remote_command import API_SERVER_NAME
from dray.apiserver.access import certificates
from dray.apiserver.access.certificates import Authority, KeyPair
from dray.apiserver.access.service_account_tokens import TokenSigner
from dray.client.kubeconfig import ClusterConnection

TOKEN_KEY = "service-accounts.key"


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Files that the operator names; None for those in the data directory."""

    ca_certificate: Path | None = None
    ca_key: Path | None = None
    token_signing_key: Path | None = None
    token_keys: Sequence[Path] = ()
    """Further keys whose tokens are valid."""


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """An authority, and what signs and reads tokens."""

    authority: Authority
    signer: TokenSigner

    @classmethod
    def load(cls, directory: Path, files: KeyFiles | None = None) -> ServerKeys:
        """Return the keys of the files, and for the rest those of the directory, made if absent.

        Raises KeyFileError for a file that cannot be used.
        """
        files = files or KeyFiles()
        if files.ca_certificate is not None and files.ca_key is not None:
            authority = Authority.from_files(files.ca_certificate, files.ca_key)
        else:
            authority = Authority.load_or_create(directory)
        signing_key = files.token_signing_key
        if signing_key is None:
            signing_key = directory / TOKEN_KEY
            TokenSigner.load_or_create(signing_key)
        return cls(authority, TokenSigner.from_files(signing_key, files.token_keys))

    def server_identity(self) -> KeyPair:
        """Return a certificate with which the API server connects to node agents."""
        lifetime = certificates.COMPONENT_LIFETIME
        return self.authority.client_pair(API_SERVER_NAME, (), lifetime)

    def connection(self, url: str, user: str, *groups: str) -> ClusterConnection:
        """Return a connection to a server with these keys, with a new client certificate."""
        pair = self.authority.client_pair(user, groups)
        return ClusterConnection(
            url,
            certificate_authority=self.authority.certificate,
            client_certificate=pair.certificate,
            client_key=pair.key,
        )
