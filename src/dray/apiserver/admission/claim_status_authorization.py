"""Authorization of changes to a claim's status: allocation, reservations, devices.

As pkg/registry/resource, AuthorizedForBinding and AuthorizedForDeviceStatus: beside the status
itself, the allocation needs permission on `resourceclaims/binding`, and the status of devices on
`resourceclaims/driver` under the driver's name. A driver may have that for its own node only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api import errors
from dray.api.features import Features
from dray.api.formats import json_equality, names
from dray.api.http_messages import User
from dray.api.ids import GroupResource
from dray.api.types.meta import JsonObject
from dray.apiserver.access import node_authorizer
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.access.rbac import Attributes
from dray.apiserver.admission.admission_chain import AdmissionRequest, AdmissionRule

GROUP, RESOURCE = "resource.k8s.io", "resourceclaims"
NODE_NAME_KEY = "authentication.kubernetes.io/node-name"
ASSOCIATED_NODE, ARBITRARY_NODE = "associated-node:", "arbitrary-node:"
_DEVICE_KEY = ("driver", "pool", "device", "shareID")


class ClaimStatusAuthorization(AdmissionRule):
    about = frozenset({"ResourceClaim"})

    def __init__(self, authorizer: Authorizer, features: Features) -> None:
        self._authorizer = authorizer
        self._features = features

    async def field_errors(self, admission: AdmissionRequest) -> Sequence[errors.Cause]:
        if not self._features.resource_claim_granular_status_authorization:
            return ()
        if not admission.is_about(GROUP, "ResourceClaim", "status") or admission.new is None:
            return ()
        new = admission.new.get("status") or {}
        old = (admission.old or {}).get("status") or {}
        about_binding = self._about_binding(admission, new, old)
        return (*about_binding, *self._about_devices(admission, new, old))

    def _about_binding(
        self, admission: AdmissionRequest, new: JsonObject, old: JsonObject
    ) -> Iterator[errors.Cause]:
        if all(
            json_equality.are_equal(new.get(field), old.get(field))
            for field in ("allocation", "reservedFor")
        ):
            return
        attributes = Attributes(admission.verb, GROUP, RESOURCE, "binding")
        refusal = self._refusal(admission.user, attributes)
        if refusal is not None:
            yield _forbidden(
                "status.allocation",
                "changing status.allocation or status.reservedFor requires "
                f'resource="resourceclaims/binding", verb="{admission.verb}" permission: {refusal}',
            )

    def _about_devices(
        self, admission: AdmissionRequest, new: JsonObject, old: JsonObject
    ) -> Iterator[errors.Cause]:
        if not self._features.resource_claim_device_status or not new.get("allocation"):
            return
        verbs = [ARBITRARY_NODE + admission.verb]
        if _is_on_node(admission.user, _allocated_node(new["allocation"])):
            verbs.insert(0, ASSOCIATED_NODE + admission.verb)
        for driver in _changed_drivers(new, old):
            refusal = self._refusal_for_driver(admission, verbs, driver)
            if refusal is not None:
                yield _forbidden(
                    "status.devices",
                    'changing status.devices requires resource="resourceclaims/driver", '
                    f'verb="[{" ".join(verbs)}]" permission: {refusal}',
                )

    def _refusal_for_driver(
        self, admission: AdmissionRequest, verbs: list[str], driver: str
    ) -> str | None:
        """Return None if one of the verbs is allowed, or the denial of the first."""
        refusals = []
        for verb in verbs:
            attributes = Attributes(verb, GROUP, RESOURCE, "driver", admission.namespace, driver)
            refusal = self._refusal(admission.user, attributes)
            if refusal is None:
                return None
            refusals.append(refusal)
        return refusals[0]

    def _refusal(self, user: User, attributes: Attributes) -> str | None:
        why = self._authorizer.refusal(user, attributes)
        if why is None:
            return None
        return errors.forbidden(GroupResource(GROUP, RESOURCE), attributes.name, why).message


def _forbidden(field: str, why: str) -> errors.Cause:
    return errors.Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def _changed_drivers(new: JsonObject, old: JsonObject) -> list[str]:
    """Return the drivers of all entries that were added, removed or changed."""
    before, after = _devices(old), _devices(new)
    return sorted(
        {key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    )


def _devices(status: JsonObject) -> dict[tuple[str, ...], JsonObject]:
    return {
        tuple(device.get(part) or "" for part in _DEVICE_KEY): device
        for device in status.get("devices") or ()
    }


def _allocated_node(allocation: JsonObject) -> str:
    """Return the name of the node of an allocation, or an empty text if it is not for one."""
    terms: list[JsonObject] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions"):
        return ""
    match terms[0].get("matchFields"):
        case [{"key": "metadata.name", "operator": "In", "values": [str(node)]}]:
            return node
    return ""


def _is_on_node(user: User, node: str) -> bool:
    """Whether the user is the node itself, or a service account whose token is bound to it."""
    if not node:
        return False
    if node_authorizer.node_of(user) == node:
        return True
    nodes = dict(user.extra).get(NODE_NAME_KEY, ())
    is_service_account = user.name.startswith("system:serviceaccount:")
    return is_service_account and nodes == (node,) and not names.dns_subdomain_errors(node)
