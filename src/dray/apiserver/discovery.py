"""Discovery: the groups, versions and kinds that are served, in both forms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from dray.api import errors, kinds
from dray.api.kinds import GroupVersionKind, Kind, Subresource
from dray.api.types.meta import JsonObject

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


_ADMISSION = "admissionregistration.k8s.io"
_INSTEAD: Mapping[str, str] = {
    "validatingwebhookconfigurations": "dray calls no admission webhooks",
    "mutatingwebhookconfigurations": "dray calls no admission webhooks",
    "mutatingadmissionpolicies": "policies of dray do not change objects",
    "mutatingadmissionpolicybindings": "policies of dray do not change objects",
}
"""Why resources of admission are absent: to store them and not obey would be worse."""


def not_served(group: str, resource: str) -> errors.NotFound:
    """Return the error for a resource that is not served, with the reason where it has one."""
    refusal = errors.path_not_found()
    why = _INSTEAD.get(resource) if group == _ADMISSION else None
    if why is None:
        return refusal
    return errors.NotFound(
        f"{refusal.message}: {resource}.{group} is not served, because {why}; "
        "write a ValidatingAdmissionPolicy instead",
        refusal.details,
    )


class Discovery:
    """The discovery documents of the enabled groups and versions, built once."""

    def __init__(self, disabled: Iterable[str] = (), server_address: str = "") -> None:
        off = frozenset(disabled)
        self._versions = {
            group: tuple(v for v in versions if kinds.api_version(group, v) not in off)
            for group, versions in kinds.VERSIONS_BY_GROUP.items()
        }
        self._server_address = server_address

    def serves(self, group: str, version: str) -> bool:
        return version in self._versions.get(group, ())

    def core_versions(self) -> JsonObject:
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": self._server_address}
        return {
            "kind": "APIVersions",
            "versions": list(self._versions[""]),
            "serverAddressByClientCIDRs": [address],
        }

    def groups(self) -> JsonObject:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": list(map(self._group, self._named())),
        }

    def group(self, name: str) -> JsonObject | None:
        if not self._versions.get(name):
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def resources(self, group: str, version: str) -> JsonObject | None:
        """Return the plain list of one group and version."""
        if not self.serves(group, version):
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": kinds.api_version(group, version),
            "resources": [
                row for kind in kinds.in_group_version(group, version) for row in _plain(kind)
            ],
        }

    def aggregated(self, *, core: bool) -> tuple[bytes, str]:
        """Return the aggregated document of `/api` or `/apis`, and its entity tag."""
        names = [""] if core else self._named()
        document = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": list(map(self._aggregated_group, names)),
        }
        body = msgspec.json.encode(document)
        return body, f'"{hashlib.sha512(body).hexdigest().upper()}"'

    def _named(self) -> list[str]:
        return [group for group, versions in self._versions.items() if group and versions]

    def _group(self, name: str) -> JsonObject:
        versions = [
            {"groupVersion": kinds.api_version(name, version), "version": version}
            for version in self._versions[name]
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated_group(self, group: str) -> JsonObject:
        return {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        _aggregated(kind) for kind in kinds.in_group_version(group, version)
                    ],
                    "freshness": "Current",
                }
                for version in self._versions[group]
            ],
        }


def _plain(kind: Kind) -> Iterable[JsonObject]:
    row: JsonObject = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_other_names(kind),
    }
    if kind.is_stored:
        row["storageVersionHash"] = kind.storage_version_hash
    yield row
    for subresource in kind.subresources:
        yield {
            "name": f"{kind.plural}/{subresource.name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **_foreign_type(subresource),
            "kind": subresource.kind.kind if subresource.kind else kind.kind,
            "verbs": list(subresource.verbs),
        }


def _other_names(kind: Kind) -> JsonObject:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: values for key, values in names.items() if values}


def _foreign_type(subresource: Subresource) -> JsonObject:
    """Return group and version of a subresource's kind if that is not the kind of the object."""
    if subresource.kind is None or subresource.kind == GroupVersionKind("", "v1", "Binding"):
        return {}
    return {"group": subresource.kind.group, "version": subresource.kind.version}


def _aggregated(kind: Kind) -> JsonObject:
    row: JsonObject = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_other_names(kind),
    }
    if kind.subresources:
        row["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _response_kind(kind.kind, subresource.kind),
                "verbs": list(subresource.verbs),
            }
            for subresource in kind.subresources
        ]
    return row


def _response_kind(name: str, other: GroupVersionKind | None = None) -> JsonObject:
    if other is None:
        return {"group": "", "version": "", "kind": name}
    return {"group": other.group, "version": other.version, "kind": other.kind}
