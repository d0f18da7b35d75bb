"""`dray revoke` against a real server, by the credentials that it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dray.apiserver import standalone
from dray.client import kubeconfig
from tests.unit.cli.conftest import Cluster, run

DEADLINE_SECONDS = 30.0


def user_of(cluster: Cluster, folder: Path, name: str) -> Cluster:
    """Return the cluster as a user sees it, with a new certificate."""
    url = kubeconfig.load(cluster.kubeconfig).server
    path = folder / f"{name}.kubeconfig"
    kubeconfig.write(
        path, standalone.connection(cluster.kubeconfig.parent, url, name, standalone.ADMIN_GROUP)
    )
    return Cluster(path)


def is_accepted(user: Cluster) -> bool:
    return user.dray("get", "nodes").exit_code == 0


def becomes(user: Cluster, *, accepted: bool) -> bool:
    end = time.monotonic() + DEADLINE_SECONDS
    while is_accepted(user) is not accepted:
        assert time.monotonic() < end
        time.sleep(0.05)
    return True


def test_a_user_who_is_revoked_needs_a_new_certificate(cluster: Cluster, tmp_path: Path) -> None:
    alice, bob = (user_of(cluster, tmp_path, name) for name in ("alice", "bob"))
    assert is_accepted(alice)
    result = cluster.dray("revoke", "alice")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("revoked: alice: all that was issued before 20")
    assert becomes(alice, accepted=False)
    assert is_accepted(bob)
    # Certificates have whole seconds: within the same one, a new certificate is an old one.
    end = time.monotonic() + DEADLINE_SECONDS
    while not is_accepted(user_of(cluster, tmp_path, "alice")):
        assert time.monotonic() < end


def test_one_certificate_is_revoked(cluster: Cluster, tmp_path: Path) -> None:
    carol = user_of(cluster, tmp_path, "carol")
    file = tmp_path / "carol.crt"
    file.write_bytes(kubeconfig.load(carol.kubeconfig).client_certificate)
    result = cluster.dray("revoke", "--certificate", str(file))
    assert result.exit_code == 0, result.output
    assert becomes(carol, accepted=False)
    assert is_accepted(user_of(cluster, tmp_path, "carol"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a user"),
        (("alice", "--serial", "1"), "name a user"),
        (("--serial", "xyz"), "not a hexadecimal number"),
        (("--serial", "1", "--before", "2026-01-01T00:00:00Z"), "only for a user"),
        (("alice", "--before", "yesterday"), "is not a time such as"),
        (("--certificate", "/nonexistent"), "No such file"),
        (("--certificate", "/dev/null"), "not a certificate in PEM"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], message: str) -> None:
    result = run("revoke", *arguments)
    assert result.exit_code == 2
    assert message in result.output
