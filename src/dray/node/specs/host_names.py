"""Names of a pod and how its containers look up others: hostname, /etc/hosts, /etc/resolv.conf.

There is no name server of the cluster, so `ClusterFirst` is the same as `Default`, as with a
kubelet that knows none: the name servers of the node. Those on its loopback stay out of reach.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dray.api.types.pods import Pod, PodDNSConfig
from dray.node.runtimes.interface import ContainerConfigError

CLUSTER_DOMAIN: Final = "cluster.local"
MAX_HOSTNAME_BYTES: Final = 64
MAX_NAME_SERVERS: Final = 3
HOST_FILES: Final = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""Where the node has its name servers; the second where the first names a loopback address."""
_HOSTS: Final = (
    "# Kubernetes-managed hosts file.",
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)
_HEADER_OF_NODE: Final = "# Kubernetes-managed hosts file (host network)."
_MAX_FILE_BYTES: Final = 65536
_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f#;]+")


def hostname(pod: Pod) -> str:
    """Return the hostname of a pod. Raises ContainerConfigError for one that is too long."""
    spec = pod.spec
    short = spec.hostname_override or spec.hostname or pod.metadata.name
    if not spec.set_hostname_as_fqdn or not spec.subdomain or spec.hostname_override:
        return short
    full = f"{short}.{spec.subdomain}.{pod.metadata.namespace}.svc.{CLUSTER_DOMAIN}"
    if len(full) > MAX_HOSTNAME_BYTES:
        raise ContainerConfigError(
            f"spec.setHostnameAsFQDN: {full} is longer than {MAX_HOSTNAME_BYTES} characters; "
            "choose a shorter hostname or subdomain, or leave it out"
        )
    return full


def hosts(pod: Pod, address: str, *, of_node: Path = Path("/etc/hosts")) -> str:
    """Return the /etc/hosts of a pod, as a kubelet writes it."""
    lines = [*_HOSTS, f"{address}\t{hostname(pod)}"]
    if pod.spec.host_network:
        lines = [_HEADER_OF_NODE, *_lines(of_node)]
    if pod.spec.host_aliases:
        lines += ["", "# Entries added by HostAliases."]
        lines += ["\t".join((alias.ip, *alias.hostnames)) for alias in pod.spec.host_aliases]
    return "".join(f"{line}\n" for line in lines)


def _lines(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_MAX_FILE_BYTES).splitlines()
    except OSError:
        return []


def resolv_conf(pod: Pod, *, reaches_loopback: bool, files: Iterable[Path] = HOST_FILES) -> str:
    """Return the /etc/resolv.conf of a pod; `reaches_loopback` is for the network of the node.

    Raises ContainerConfigError for a dnsPolicy or dnsConfig that cannot be honoured.
    """
    policy, config = pod.spec.dns_policy, pod.spec.dns_config or PodDNSConfig()
    if policy not in ("", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"):
        raise ContainerConfigError(f"spec.dnsPolicy: {policy} is not supported")
    lines: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    if policy != "None":
        lines = _of_node(files, reaches_loopback)
    _check(config)
    servers = dict.fromkeys((*lines["nameserver"], *config.nameservers))
    searches = dict.fromkeys((*lines["search"], *config.searches))
    options = {option.partition(":")[0]: option for option in lines["options"]}
    for added in config.options:
        options[added.name] = f"{added.name}:{added.value}" if added.value else added.name
    text = "".join(f"nameserver {server}\n" for server in [*servers][:MAX_NAME_SERVERS])
    text += f"search {' '.join(searches)}\n" if searches else ""
    return text + (f"options {' '.join(options.values())}\n" if options else "")


def _of_node(files: Iterable[Path], reaches_loopback: bool) -> dict[str, list[str]]:
    """Return the words after each keyword of the first file that has a usable name server."""
    found: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    for file in files:
        found = {"nameserver": [], "search": [], "options": []}
        for line in _lines(file):
            keyword, *words = line.split() or [""]
            if keyword == "nameserver" and words and (reaches_loopback or _is_remote(words[0])):
                found["nameserver"].append(words[0])
            elif keyword in ("search", "options"):
                found[keyword] = words
        if found["nameserver"]:
            break
    return found


def _is_remote(server: str) -> bool:
    try:
        address = ipaddress.ip_address(server.partition("%")[0])
    except ValueError:
        return False
    return not address.is_loopback and not address.is_unspecified


def _check(config: PodDNSConfig) -> None:
    for field, words in (
        ("nameservers", config.nameservers),
        ("searches", config.searches),
        ("options", [option.name for option in config.options]),
        ("options", [option.value for option in config.options if option.value]),
    ):
        for word in words:
            if not _WORD.fullmatch(word):
                raise ContainerConfigError(f"spec.dnsConfig.{field}: {word!r} is not one word")
