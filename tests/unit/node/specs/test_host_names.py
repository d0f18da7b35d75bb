"""Hostname, /etc/hosts and /etc/resolv.conf of pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.pods import Pod
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import host_names


def pod(**spec: Any) -> Pod:
    metadata = {"name": "p", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def test_hosts_are_written_as_by_a_kubelet() -> None:
    text = host_names.hosts(pod(), "10.0.0.1")
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert text.endswith("\n10.0.0.1\tp\n")
    aliases = [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}]
    text = host_names.hosts(pod(hostAliases=aliases), "10.0.0.1")
    added = "\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n"
    assert text.endswith(f"10.0.0.1\tp{added}")


def test_hosts_of_a_pod_in_the_network_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("192.0.2.5 node\n", "utf-8")
    made = pod(hostNetwork=True, hostAliases=[{"ip": "192.0.2.1", "hostnames": ["a"]}])
    text = host_names.hosts(made, "10.0.0.1", of_node=tmp_path / "hosts")
    header = "# Kubernetes-managed hosts file (host network)."
    added = "\n# Entries added by HostAliases.\n192.0.2.1\ta\n"
    assert text == f"{header}\n192.0.2.5 node\n{added}"
    assert host_names.hosts(pod(hostNetwork=True), "", of_node=tmp_path) == f"{header}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    local, upstream = tmp_path / "local", tmp_path / "upstream"
    local.write_text("# comment\nnameserver 127.0.0.53\nnameserver ::1\nsearch a b\n", "utf-8")
    upstream.write_text(
        "nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch c\noptions ndots:1 edns0\n", "utf-8"
    )
    return local, upstream


def test_name_servers_on_the_loopback_of_the_node_are_left_out(files: tuple[Path, Path]) -> None:
    text = host_names.resolv_conf(pod(), reaches_loopback=False, files=files)
    assert text == (
        "nameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch c\noptions ndots:1 edns0\n"
    )
    assert host_names.resolv_conf(pod(), reaches_loopback=False, files=files[:1]) == "search a b\n"
    text = host_names.resolv_conf(pod(), reaches_loopback=True, files=files)
    assert text == "nameserver 127.0.0.53\nnameserver ::1\nsearch a b\n"


def test_a_pod_adds_to_the_names_of_the_node(files: tuple[Path, Path]) -> None:
    config = {
        "nameservers": ["192.0.2.53", "192.0.2.1", "192.0.2.2"],
        "searches": ["d"],
        "options": [{"name": "ndots", "value": "5"}, {"name": "rotate"}],
    }
    made = pod(dnsPolicy="ClusterFirst", dnsConfig=config)
    assert host_names.resolv_conf(made, reaches_loopback=False, files=files) == (
        "nameserver 192.0.2.53\nnameserver 192.0.2.54\nnameserver 192.0.2.1\n"
        "search c d\noptions ndots:5 edns0 rotate\n"
    )


def test_the_policy_none_leaves_the_names_of_the_node_out(files: tuple[Path, Path]) -> None:
    made = pod(dnsPolicy="None", dnsConfig={"nameservers": ["192.0.2.9"]})
    text = host_names.resolv_conf(made, reaches_loopback=False, files=files)
    assert text == "nameserver 192.0.2.9\n"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"dnsPolicy": "Other"}, "spec.dnsPolicy"),
        ({"dnsConfig": {"options": [{"name": "a\nnameserver"}]}}, "spec.dnsConfig.options"),
        ({"dnsConfig": {"options": [{"name": "a", "value": "1 2"}]}}, "spec.dnsConfig.options"),
        ({"dnsConfig": {"searches": ["a b"]}}, "spec.dnsConfig.searches"),
        ({"dnsConfig": {"nameservers": [""]}}, "spec.dnsConfig.nameservers"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_field(
    spec: dict[str, Any], field: str, files: tuple[Path, Path]
) -> None:
    with pytest.raises(ContainerConfigError, match=field):
        host_names.resolv_conf(pod(**spec), reaches_loopback=False, files=files)


def test_the_hostname_is_the_full_name_where_the_pod_wants_it() -> None:
    assert host_names.hostname(pod(hostname="h", setHostnameAsFQDN=True)) == "h"
    assert host_names.hostname(pod(hostname="h", subdomain="s")) == "h"
    full = pod(hostname="h", subdomain="s", setHostnameAsFQDN=True)
    assert host_names.hostname(full) == "h.s.default.svc.cluster.local"
    too_long = pod(hostname="h" * 40, subdomain="s", setHostnameAsFQDN=True)
    with pytest.raises(ContainerConfigError, match=r"spec\.setHostnameAsFQDN"):
        host_names.hostname(too_long)
