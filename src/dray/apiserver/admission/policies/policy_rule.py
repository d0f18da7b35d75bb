"""The admission rule that enforces validating admission policies.

Follows apiserver, admission/plugin/policy/validating/dispatcher.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from dray.api import errors
from dray.api.types.admission import ParamKind, ValidatingAdmissionPolicyBinding
from dray.api.types.meta import JsonObject
from dray.apiserver.access.authorization import Authorizer
from dray.apiserver.admission.admission_chain import (
    AdmissionRequest,
    AdmissionRule,
    CommitRequirements,
)
from dray.apiserver.admission.policies import matching, parameters
from dray.apiserver.admission.policies.compiled_policies import (
    NAMESPACE,
    NOTHING,
)
from dray.apiserver.admission.policies.matching import MatchedResource
from dray.apiserver.admission.policies.outcome import PolicyOutcome
from dray.apiserver.admission.policies.parameters import ConfigurationError
from dray.apiserver.admission.policies.request_values import RequestValues
from dray.apiserver.admission.policies.stored_policies import POLICIES, BoundPolicy, StoredPolicies
from dray.store.store import Store

_NO_PARAMS: Final = (None,)
"""A policy without parameters is evaluated once."""


class ValidatingPolicies(AdmissionRule):
    """Enforces the policies that are bound and match. Costs nothing while none is bound."""

    def __init__(self, store: Store, stored: StoredPolicies, authorizer: Authorizer) -> None:
        self._store = store
        self._stored = stored
        self._authorizer = authorizer

    async def validate(self, admission: AdmissionRequest) -> CommitRequirements | None:
        candidates = self._stored.candidates(admission)
        # Policies never decide about policies: a wrong one could not be corrected.
        if not candidates or admission.is_decided or admission.kind.group == POLICIES.group:
            return None
        outcome = PolicyOutcome()
        values = RequestValues(self._store, self._authorizer, admission)
        for candidate in candidates:
            await self._apply(candidate, values, outcome)
        outcome.note(admission.notes)
        outcome.check(admission)
        return None

    async def _apply(
        self, candidate: BoundPolicy, values: RequestValues, outcome: PolicyOutcome
    ) -> None:
        policy, compiled = candidate.policy, candidate.compiled
        matched = candidate.match.resource
        param_kind = policy.spec.param_kind
        if not candidate.match.is_certain or param_kind is not None:
            try:
                matched = await self._matched(candidate, values)
            except (ConfigurationError, errors.StatusError) as error:
                outcome.fail(policy, "", f"failed to configure policy: {error}")
                return
        if matched is None:
            return
        given = values.given(matched, compiled.reads)
        if NAMESPACE in compiled.reads:
            given = given._replace(namespace_object=await values.namespace_object())
        for binding in candidate.bindings:
            found: Sequence[JsonObject | None] = _NO_PARAMS
            if param_kind is not None or binding.spec.match_resources is not None:
                try:
                    found = await self._params(param_kind, binding, values)
                except (ConfigurationError, errors.StatusError) as error:
                    message = f"failed to configure binding: {error}"
                    outcome.fail(policy, binding.metadata.name, message)
                    continue
            for params in found:
                verdict = compiled.decide(
                    given if params is None else given._replace(params=params),
                    partial(values.conditions_request, matched),
                )
                if verdict is not NOTHING:
                    outcome.add(policy.metadata.name, binding, verdict)

    async def _matched(
        self, candidate: BoundPolicy, values: RequestValues
    ) -> MatchedResource | None:
        """Return the resource that a policy matches. Raises ConfigurationError, StatusError."""
        spec, matched = candidate.policy.spec, candidate.match.resource
        if spec.match_constraints is None:
            raise ConfigurationError("policy contained no match constraints, a required field")
        if not candidate.match.is_certain:
            constraints = spec.match_constraints
            matched = await matching.matched(constraints, values.admission, values.labels)
        if matched is not None and spec.param_kind is not None:
            parameters.served(spec.param_kind)
        return matched

    async def _params(
        self,
        param_kind: ParamKind | None,
        binding: ValidatingAdmissionPolicyBinding,
        values: RequestValues,
    ) -> Sequence[JsonObject | None]:
        """Return the parameters of a binding; none if it does not match the request."""
        match = binding.spec.match_resources
        if match is not None:
            matched = await matching.matched(match, values.admission, values.labels)
            if matched is None:
                return ()
        if param_kind is None:
            return _NO_PARAMS
        return await parameters.find(
            self._store, param_kind, binding.spec.param_ref, values.namespace
        )
