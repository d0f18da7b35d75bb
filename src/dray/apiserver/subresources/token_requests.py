"""serviceaccounts/token: a token for an account, optionally bound to an object.

As pkg/registry/core/serviceaccount/storage, TokenREST.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dray.api import errors, kinds
from dray.api.formats import gotext, gotime
from dray.api.http_messages import Response
from dray.api.ids import GroupKind, GroupResource
from dray.api.kinds import GroupVersionKind
from dray.api.types.meta import JsonObject, ObjectMeta, Wire
from dray.apiserver.access import service_account_tokens
from dray.apiserver.access.service_account_tokens import DEFAULT_AUDIENCE, TokenSigner
from dray.apiserver.admission.admission_chain import AdmissionChain
from dray.apiserver.request import validation, write_options
from dray.apiserver.request.call import Call
from dray.apiserver.storage import store_keys
from dray.apiserver.storage.lookup import Lookup
from dray.apiserver.subresources import common
from dray.apiserver.verbs import reads, writes
from dray.store.store import Store
from dray.validation import fields

TOKEN_REQUEST = GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")
_GROUP_KIND = GroupKind("authentication.k8s.io", "TokenRequest")
DEFAULT_SECONDS = 3600
MIN_SECONDS, MAX_SECONDS = 600, 2**32
POD_TOKEN_SECONDS = 3607
"""The odd number that admission asks for in the volumes of pods."""
EXTENDED_SECONDS = 365 * 24 * 3600
"""Such a token lives longer than it says, as in Kubernetes: programs may read it once. It still
ends with its pod."""
_BOUND_KINDS = ("Pod", "Node", "Secret")


class _Spec(Wire, frozen=True):
    node_name: str = ""
    service_account_name: str = ""


class _Bound(Wire, frozen=True):
    """An object that a token may be bound to; only pods have such a spec."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class TokenRequests:
    store: Store
    chain: AdmissionChain
    signer: TokenSigner
    new_id: Callable[[], str]

    async def create(self, call: Call) -> Response:
        options = write_options.parse(call.request, "CreateOptions")
        request = writes.read_form(call, TOKEN_REQUEST, options)
        account = (await reads.stored_object(call, self.store)).document["metadata"]
        _complete(call, request, account)
        admission = common.creation(call, request, options, dry_run=options.dry_run)
        await self.chain.mutate(admission)
        await self.chain.validate(admission)
        bound = await self._bound_to(call, request["spec"].get("boundObjectRef"))
        request["status"] = self._issue(call, request["spec"], account, bound)
        return reads.encoded(call.form, request, 201, {})

    def _issue(
        self, call: Call, spec: JsonObject, account: JsonObject, bound: JsonObject
    ) -> JsonObject:
        seconds = lifetime = spec["expirationSeconds"]
        if seconds == POD_TOKEN_SECONDS and spec["audiences"] == [DEFAULT_AUDIENCE] and bound:
            lifetime = EXTENDED_SECONDS
        claims = service_account_tokens.service_account_claims(
            call.namespace,
            {"name": account["name"], "uid": account["uid"]},
            now=call.now.timestamp(),
            expiration_seconds=lifetime,
            token_id=self.new_id(),
            audiences=spec["audiences"],
        )
        claims["kubernetes.io"].update(bound)
        expires = call.now + datetime.timedelta(seconds=seconds)
        return {"token": self.signer.sign(claims), "expirationTimestamp": gotime.write(expires)}

    async def _bound_to(self, call: Call, reference: JsonObject | None) -> JsonObject:
        """Return the claims about the object that the token is bound to."""
        if not reference:
            return {}
        group, version = kinds.parse_api_version(reference.get("apiVersion") or "")
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        if group or kind not in _BOUND_KINDS:
            raise errors.bad_request(
                f"cannot bind token to object of type {group}/{version}, Kind={kind}"
            )
        bound_object = await self._find(kind, name, call.namespace)
        if bound_object is None:
            resource = store_keys.group_resource(kinds.served("", kind))
            raise errors.not_found(resource, name)
        if kind == "Pod" and bound_object.spec.service_account_name != call.info.name:
            raise errors.bad_request(
                f"cannot bind token for serviceaccount {gotext.quote(call.info.name)} to pod "
                "running with different serviceaccount name."
            )
        _check_uid(kind, bound_object.metadata, reference.get("uid"))
        bound = {kind.lower(): {"name": name, "uid": bound_object.metadata.uid}}
        if kind == "Pod" and bound_object.spec.node_name:
            bound["node"] = await self._node(bound_object.spec.node_name)
        return bound

    async def _find(self, kind: str, name: str, namespace: str) -> _Bound | None:
        row = kinds.served("", kind)
        lookup = Lookup(self.store, row, _Bound)
        return await lookup.get(name, namespace if row.namespaced else "")

    async def _node(self, name: str) -> JsonObject:
        """Return the claims about a node; only its name if it is absent."""
        node = await self._find("Node", name, "")
        return {"name": name, "uid": node.metadata.uid} if node else {"name": name}


def _complete(call: Call, request: JsonObject, account: JsonObject) -> None:
    """Check the request against the account, and fill in defaults."""
    metadata = request["metadata"] = request.get("metadata") or {}
    validation.refuse(_GROUP_KIND, call.info.name, _mismatches(metadata, account))
    if metadata.get("uid") and metadata["uid"] != account["uid"]:
        raise errors.conflict(
            GroupResource(*_GROUP_KIND),
            call.info.name,
            f"the UID in the token request ({metadata['uid']}) does not match the UID of the "
            f"service account ({account['uid']})",
        )
    metadata.update({key: account[key] for key in ("name", "namespace", "uid")})
    metadata["creationTimestamp"] = gotime.write(call.now)
    spec = request["spec"] = request.get("spec") or {}
    spec["audiences"] = spec.get("audiences") or [DEFAULT_AUDIENCE]
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = DEFAULT_SECONDS
    spec.setdefault("boundObjectRef", None)
    validation.refuse(_GROUP_KIND, "", _spec_errors(spec))


def _mismatches(metadata: JsonObject, account: JsonObject) -> Iterator[fields.FieldError]:
    for key in ("name", "namespace"):
        if metadata.get(key) and metadata[key] != account[key]:
            yield fields.invalid(
                fields.METADATA.child(key),
                metadata[key],
                f"must match the service account {key} if specified",
            )


def _spec_errors(spec: JsonObject) -> Iterator[fields.FieldError]:
    path, seconds = fields.SPEC.child("expirationSeconds"), spec["expirationSeconds"]
    if seconds < MIN_SECONDS:
        yield fields.invalid(path, seconds, "may not specify a duration less than 10 minutes")
    if seconds > MAX_SECONDS:
        yield fields.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
    if spec.get("attestations"):
        yield fields.invalid(
            fields.SPEC.child("attestations"),
            spec["attestations"],
            "attestations may only be specified with a webhook bound object reference",
        )


def _check_uid(kind: str, metadata: ObjectMeta, expected: str | None) -> None:
    if expected and expected != metadata.uid:
        raise errors.conflict(
            GroupResource("", kind),
            metadata.name,
            f"the UID in the bound object reference ({expected}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
