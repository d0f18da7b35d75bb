"""Admission policies and their bindings."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.types.meta import Condition, LabelSelector, ObjectMeta, Wire


class ParamKind(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""


class NamedRuleWithOperations(Wire, frozen=True):
    resource_names: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str | None = None


class MatchResources(Wire, frozen=True):
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: str | None = None


class PolicyValidation(Wire, frozen=True):
    """The API calls it Validation."""

    expression: str = ""
    message: str = ""
    reason: str | None = None
    message_expression: str = ""


class AuditAnnotation(Wire, frozen=True):
    key: str = ""
    value_expression: str = ""


class MatchCondition(Wire, frozen=True):
    name: str = ""
    expression: str = ""


class PolicyVariable(Wire, frozen=True):
    """The API calls it Variable."""

    name: str = ""
    expression: str = ""


class ValidatingAdmissionPolicySpec(Wire, frozen=True):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: tuple[PolicyValidation, ...] = ()
    failure_policy: str | None = None
    audit_annotations: tuple[AuditAnnotation, ...] = ()
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[PolicyVariable, ...] = ()

    def expressions(self) -> Iterator[str]:
        """Yield every expression; an absent message expression is empty."""
        for validation in self.validations:
            yield validation.expression
            yield validation.message_expression
        for condition in self.match_conditions:
            yield condition.expression
        for annotation in self.audit_annotations:
            yield annotation.value_expression
        for variable in self.variables:
            yield variable.expression


class ExpressionWarning(Wire, frozen=True):
    field_ref: str = ""
    warning: str = ""


class TypeChecking(Wire, frozen=True):
    expression_warnings: tuple[ExpressionWarning, ...] = ()


class ValidatingAdmissionPolicyStatus(Wire, frozen=True):
    observed_generation: int = 0
    type_checking: TypeChecking | None = None
    conditions: tuple[Condition, ...] = ()


class ValidatingAdmissionPolicy(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


class ParamRef(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class ValidatingAdmissionPolicyBindingSpec(Wire, frozen=True):
    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None
    validation_actions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()
