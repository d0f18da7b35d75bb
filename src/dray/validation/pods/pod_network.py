"""Rules for a pod's place in the network: names, name servers, ports of the node."""

from __future__ import annotations

from dray.api.formats import names
from dray.api.types import pods
from dray.validation import fields, identifiers, ip_addresses

_NAME_SERVERS_MAX_ITEMS = 3
_SEARCH_PATHS_MAX_ITEMS = 32
_SEARCH_PATHS_MAX_BYTES = 2048
_HOSTNAME_MAX_BYTES = 64


def dns_config(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    config = spec.dns_config
    if spec.dns_policy == "None":
        if config is None:
            yield fields.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            yield fields.required(
                path.child("nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
            return
    if config is not None:
        yield from _dns_servers(config, path)
        yield from _dns_searches(config.searches, path.child("searches"))
        for index, option in enumerate(config.options):
            if not option.name:
                yield fields.required(path.child("options").index(index), "must not be empty")


def _dns_servers(config: pods.PodDNSConfig, path: fields.Path) -> fields.Errors:
    path = path.child("nameservers")
    if len(config.nameservers) > _NAME_SERVERS_MAX_ITEMS:
        yield fields.invalid(
            path,
            config.nameservers,
            f"must not have more than {_NAME_SERVERS_MAX_ITEMS} nameservers",
        )
    for index, server in enumerate(config.nameservers):
        yield from ip_addresses.address(server, path.index(index))


def _dns_searches(searches: tuple[str, ...], path: fields.Path) -> fields.Errors:
    if len(searches) > _SEARCH_PATHS_MAX_ITEMS:
        yield fields.invalid(
            path, searches, f"must not have more than {_SEARCH_PATHS_MAX_ITEMS} search paths"
        )
    if len(" ".join(searches).encode()) > _SEARCH_PATHS_MAX_BYTES:
        yield fields.invalid(
            path,
            searches,
            f"must not have more than {_SEARCH_PATHS_MAX_BYTES} characters (including spaces) in "
            "the search list",
        )
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            details = names.underscore_dns_subdomain_errors(domain)
            yield from fields.invalid_details(path.index(index), domain, details)


def hostname_override(spec: pods.PodSpec, path: fields.Path) -> fields.Errors:
    name = spec.hostname_override
    if name is None:
        return
    if spec.set_hostname_as_fqdn:
        yield fields.forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.host_network:
        yield fields.forbidden(path, "may not be specified when hostNetwork is true")
    yield from fields.limited_bytes(path, name, _HOSTNAME_MAX_BYTES)
    yield from identifiers.dns_subdomain(name, path)


def host_aliases(aliases: tuple[pods.HostAlias, ...], path: fields.Path) -> fields.Errors:
    for index, alias in enumerate(aliases):
        alias_path = path.index(index)
        yield from ip_addresses.address(alias.ip, alias_path.child("ip"))
        for name_index, hostname in enumerate(alias.hostnames):
            yield from identifiers.dns_subdomain(
                hostname, alias_path.child("hostnames").index(name_index)
            )


def host_ports(spec: pods.PodSpec, path: fields.Path, *, is_pod: bool) -> fields.Errors:
    """Check ports on the node's network, which cannot be mapped; a template may leave them open."""
    if not spec.host_network:
        return
    for index, container in enumerate(spec.containers):
        for port_index, port in enumerate(container.ports):
            if (is_pod or port.host_port) and port.host_port != port.container_port:
                yield fields.invalid(
                    path.index(index).child("ports").index(port_index).child("hostPort"),
                    port.host_port,
                    "must match `containerPort` when `hostNetwork` is true",
                )
