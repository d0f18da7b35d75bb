"""The outcome of all policies for a request: refused, warned, noted in the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from dray.api import errors
from dray.api.types.admission import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from dray.api.types.meta import JsonObject
from dray.apiserver.admission.admission_chain import AdmissionRequest
from dray.apiserver.admission.policies.compiled_policies import IGNORE, Denial, Verdict
from dray.apiserver.request.request_notes import RequestNotes
from dray.apiserver.storage import codec

DENY, WARN, AUDIT = "Deny", "Warn", "Audit"
MAX_ANNOTATION_BYTES: Final = 10 * 1024
FAILURE_ANNOTATION: Final = "validation.policy.admission.k8s.io/validation_failure"
MAX_FAILURES: Final = 50
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_INVALID_CODE: Final = 422


class _Refusal(NamedTuple):
    policy: str
    binding: str
    """Empty where the policy itself is the reason."""
    denial: Denial


@dataclass
class PolicyOutcome:
    """Collects what policies say, in their order: the first refusal is the answer."""

    refusals: list[_Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    failures: list[JsonObject] = field(default_factory=list)
    """Denials of bindings that audit."""
    annotations: dict[str, list[str]] = field(default_factory=dict)

    def fail(self, policy: ValidatingAdmissionPolicy, binding: str, message: str) -> None:
        """Note a policy that cannot be applied; `binding` is empty if none can be."""
        if policy.spec.failure_policy != IGNORE:
            self.refusals.append(_Refusal(policy.metadata.name, binding, Denial(message)))

    def add(self, policy: str, binding: ValidatingAdmissionPolicyBinding, verdict: Verdict) -> None:
        """Note what a policy says, as its binding wants it."""
        name, actions = binding.metadata.name, binding.spec.validation_actions
        for denial in verdict.denials:
            if DENY in actions:
                self.refusals.append(_Refusal(policy, name, denial))
            if AUDIT in actions:
                self.failures.append(_failure(policy, binding, denial))
            if WARN in actions:
                self.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding "
                    f"'{name}': {denial.message}"
                )
        self.refusals += [_Refusal(policy, name, denial) for denial in verdict.errors]
        self._annotate(policy, verdict.annotations)

    def _annotate(self, policy: str, values: Iterable[tuple[str, str]]) -> None:
        for key, value in values:
            texts = self.annotations.setdefault(f"{policy}/{key}", [])
            text = value.encode()[:MAX_ANNOTATION_BYTES].decode("utf-8", "ignore")
            if text not in texts:
                texts.append(text)

    def note(self, notes: RequestNotes) -> None:
        """Hand over warnings and annotations, also those of a refused request."""
        notes.warnings += self.warnings
        for key, texts in self.annotations.items():
            notes.annotations[key] = ", ".join(texts)
        if self.failures:
            shown = codec.encode(self.failures[:MAX_FAILURES])
            notes.annotations[FAILURE_ANNOTATION] = shown.decode()

    def check(self, admission: AdmissionRequest) -> None:
        """Raise the first refusal."""
        if not self.refusals:
            return
        policy, binding, denial = self.refusals[0]
        where = f"'{policy}' with binding '{binding}'" if binding else f"'{policy}'"
        message = f"ValidatingAdmissionPolicy {where} denied request: {denial.message}"
        refusal = admission.forbidden(message)
        details = refusal.details or errors.Details()
        raise errors.StatusError(
            refusal.message,
            msgspec.structs.replace(details, causes=(errors.Cause(message=message),)),
            code=_CODES.get(denial.reason, _INVALID_CODE),
            reason=denial.reason,
        )


def _failure(policy: str, binding: ValidatingAdmissionPolicyBinding, denial: Denial) -> JsonObject:
    return {
        "message": denial.message,
        "policy": policy,
        "binding": binding.metadata.name,
        "expressionIndex": denial.position,
        "validationActions": list(binding.spec.validation_actions),
    }
