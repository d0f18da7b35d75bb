"""Rules for admission policies and their bindings (pkg/apis/admissionregistration/validation)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.api.formats import names
from dray.api.types import admission as api
from dray.cel import policy
from dray.cel.policy import CompiledExpression, Scope
from dray.cel.types import Type
from dray.validation import fields, lists, metadata, selector_rules

FAILURE_POLICIES: Final = ("Fail", "Ignore")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
SCOPES: Final = ("*", "Cluster", "Namespaced")
ACTIONS: Final = ("Audit", "Deny", "Warn")
REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
MAX_AUDIT_ANNOTATIONS: Final = 20
MAX_VALUE_EXPRESSION_BYTES: Final = 5 * 1024
MAX_MATCH_CONDITIONS: Final = 64
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
CEL_KEYWORDS: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    )
)
_SPEC: Final = fields.Path("spec")


def validating_policy(value: api.ValidatingAdmissionPolicy) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    yield from _PolicyCheck(value).errors()


def validating_policy_update(
    new: api.ValidatingAdmissionPolicy, old: api.ValidatingAdmissionPolicy
) -> fields.Errors:
    yield from metadata.created(new.metadata, namespaced=False)
    is_same = (new.spec.param_kind, new.spec.match_conditions) == (
        old.spec.param_kind,
        old.spec.match_conditions,
    )
    check = _PolicyCheck(new, frozenset(old.spec.expressions()), skips_conditions=is_same)
    yield from check.errors()


def validating_policy_status_update(
    new: api.ValidatingAdmissionPolicy, old: api.ValidatingAdmissionPolicy
) -> fields.Errors:
    status, path = new.status, fields.Path("status")
    if status.type_checking is not None:
        yield from lists.each_item(
            status.type_checking.expression_warnings,
            _expression_warning,
            path.child("typeChecking").child("expressionWarnings"),
        )
    yield from metadata.conditions(status.conditions, path.child("conditions"))


def _expression_warning(warning: api.ExpressionWarning, path: fields.Path) -> fields.Errors:
    yield from fields.required_text(path.child("warning"), warning.warning)
    yield from fields.required_text(path.child("fieldRef"), warning.field_ref.strip())


def policy_binding(value: api.ValidatingAdmissionPolicyBinding) -> fields.Errors:
    yield from metadata.created(value.metadata, namespaced=False)
    spec = value.spec
    path = _SPEC.child("policyName")
    if not spec.policy_name:
        yield fields.required(path)
    else:
        errors = names.dns_subdomain_errors(spec.policy_name)
        yield from fields.invalid_details(path, spec.policy_name, errors)
    if spec.param_ref is not None:
        yield from _param_ref(spec.param_ref, _SPEC.child("paramRef"))
    yield from _match_resources(spec.match_resources, _SPEC.child("matchResources"))
    yield from _actions(spec.validation_actions, _SPEC.child("validationActions"))


def policy_binding_update(
    new: api.ValidatingAdmissionPolicyBinding, old: api.ValidatingAdmissionPolicyBinding
) -> fields.Errors:
    yield from policy_binding(new)


def _param_ref(reference: api.ParamRef, path: fields.Path) -> fields.Errors:
    exclusive = "name and selector are mutually exclusive"
    if reference.name:
        errors = names.path_segment_errors(reference.name)
        yield from fields.invalid_details(path.child("name"), reference.name, errors)
        if reference.selector is not None:
            yield fields.forbidden(path.child("name"), exclusive)
    if reference.selector is not None:
        yield from selector_rules.label_selector(reference.selector, path.child("selector"))
        if reference.name:
            yield fields.forbidden(path.child("selector"), exclusive)
    elif not reference.name:
        yield fields.required(path, "one of name or selector must be specified")
    yield from fields.required_one_of(
        path.child("parameterNotFoundAction"),
        reference.parameter_not_found_action or "",
        ("Deny", "Allow"),
    )


def _actions(actions: Sequence[str], path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, action in enumerate(actions):
        yield from fields.one_of(path.index(index), action, ACTIONS)
        yield from fields.unrepeated(path.index(index), action, seen)
    if {"Deny", "Warn"} <= seen:
        yield fields.invalid(
            path,
            list(actions),
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)",
        )
    if not seen:
        yield fields.required(path)


def _match_resources(match: api.MatchResources | None, path: fields.Path) -> fields.Errors:
    if match is None:
        return
    yield from fields.required_one_of(
        path.child("matchPolicy"), match.match_policy or "", MATCH_POLICIES
    )
    for name, selector in (
        ("namespaceSelector", match.namespace_selector),
        ("objectSelector", match.object_selector),
    ):
        if selector is None:
            yield fields.required(path.child(name))
        yield from selector_rules.label_selector(selector, path.child(name))
    for name, rules in (
        ("resourceRules", match.resource_rules),
        ("excludeResourceRules", match.exclude_resource_rules),
    ):
        yield from lists.each_item(rules, _rule, path.child(name))


def _rule(rule: api.NamedRuleWithOperations, path: fields.Path) -> fields.Errors:
    seen: set[str] = set()
    for index, name in enumerate(rule.resource_names):
        name_path = path.child("resourceNames").index(index)
        yield from fields.invalid_details(name_path, name, names.path_segment_errors(name))
        yield from fields.unrepeated(name_path, name, seen)
    yield from _wildcards(rule.operations, path.child("operations"), "operations")
    for index, operation in enumerate(rule.operations):
        yield from fields.one_of(path.child("operations").index(index), operation, OPERATIONS)
    yield from _wildcards(rule.api_groups, path.child("apiGroups"), "API groups")
    versions = path.child("apiVersions")
    yield from _wildcards(rule.api_versions, versions, "API versions")
    for index, version in enumerate(rule.api_versions):
        if not version:
            yield fields.required(versions.index(index))
    yield from _resources(rule.resources, path.child("resources"))
    yield from fields.one_of(path.child("scope"), rule.scope, SCOPES)


def _wildcards(values: Sequence[str], path: fields.Path, what: str) -> fields.Errors:
    if not values:
        yield fields.required(path)
    if len(values) > 1 and "*" in values:
        yield fields.invalid(
            path, list(values), f"if '*' is present, must not specify other {what}"
        )


def _resources(resources: Sequence[str], path: fields.Path) -> fields.Errors:
    if not resources:
        yield fields.required(path)
    whole: set[str] = set()
    everywhere: set[str] = set()
    has_plain = False
    for index, text in enumerate(resources):
        if not text:
            yield fields.required(path.index(index))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            has_plain = text != "*"
            continue
        for wildcard, has in (
            (f"{resource}/*", resource in whole),
            (f"*/{subresource}", subresource in everywhere),
        ):
            if has:
                detail = f"if '{wildcard}' is present, must not specify {text}"
                yield fields.invalid(path.index(index), text, detail)
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        yield fields.invalid(path, list(resources), detail)
    if "*" in resources and has_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield fields.invalid(path, list(resources), detail)


@dataclass
class _PolicyCheck:
    """Checks the spec of one policy. Expressions that are stored already may use everything."""

    value: api.ValidatingAdmissionPolicy
    stored: frozenset[str] = frozenset()
    skips_conditions: bool = False
    _variables: dict[str, Type] | None = None

    def __post_init__(self) -> None:
        if self.value.spec.variables:
            self._variables = {}

    @property
    def _spec(self) -> api.ValidatingAdmissionPolicySpec:
        return self.value.spec

    def errors(self) -> fields.Errors:
        spec = self._spec
        yield from fields.required_one_of(
            _SPEC.child("failurePolicy"), spec.failure_policy or "", FAILURE_POLICIES
        )
        if spec.param_kind is not None:
            yield from _param_kind(spec.param_kind, _SPEC.child("paramKind"))
        constraints = _SPEC.child("matchConstraints")
        if spec.match_constraints is None:
            yield fields.required(constraints)
        else:
            yield from _match_resources(spec.match_constraints, constraints)
            if not spec.match_constraints.resource_rules:
                yield fields.required(constraints.child("resourceRules"))
        if not self.skips_conditions:
            yield from self._match_conditions(_SPEC.child("matchConditions"))
        yield from lists.each_item(spec.variables, self._variable, _SPEC.child("variables"))
        yield from self._decisions()

    def _decisions(self) -> fields.Errors:
        spec = self._spec
        if not spec.validations and not spec.audit_annotations:
            detail = "validations or auditAnnotations must contain at least one item"
            yield fields.required(_SPEC.child("validations"), detail)
            yield fields.required(_SPEC.child("auditAnnotations"), detail)
            return
        yield from lists.each_item(spec.validations, self._validation, _SPEC.child("validations"))
        path = _SPEC.child("auditAnnotations")
        if len(spec.audit_annotations) > MAX_AUDIT_ANNOTATIONS:
            yield fields.invalid(
                path,
                [annotation.key for annotation in spec.audit_annotations],
                f"must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations",
            )
        seen: set[str] = set()
        for index, annotation in enumerate(spec.audit_annotations):
            yield from self._audit_annotation(annotation, path.index(index))
            yield from fields.unrepeated(path.index(index).child("key"), annotation.key, seen)

    def _match_conditions(self, path: fields.Path) -> fields.Errors:
        conditions = self._spec.match_conditions
        yield from fields.limited_items(path, conditions, MAX_MATCH_CONDITIONS)
        seen: set[str] = set()
        for index, condition in enumerate(conditions):
            here = path.index(index)
            text = condition.expression.strip()
            if text:
                # Match conditions cannot use the variables of the policy here, as in Kubernetes.
                yield from self._compiled(text, here.child("expression"), policy.BOOL, None)
            else:
                yield fields.required(here.child("expression"))
            yield from fields.required_text(here.child("name"), condition.name, _qualified_name)
            if condition.name:
                yield from fields.unrepeated(here.child("name"), condition.name, seen)

    def _variable(self, variable: api.PolicyVariable, path: fields.Path) -> fields.Errors:
        name = variable.name
        if not name.strip():
            yield fields.required(path.child("name"), "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in CEL_KEYWORDS:
            yield fields.invalid(path.child("name"), name, "must be a valid CEL identifier")
        if not variable.expression.strip():
            yield fields.required(path.child("expression"), "expression is not specified")
            return
        scope = self._scope(variable.expression, self._variables)
        compiled = policy.compile_expression(
            variable.expression, scope.environment(), policy.ANYTHING
        )
        assert self._variables is not None
        self._variables[name] = policy.field_type(compiled.type)
        yield from _compile_error(path.child("expression"), compiled)

    def _validation(self, validation: api.PolicyValidation, path: fields.Path) -> fields.Errors:
        if not validation.expression.strip():
            yield fields.required(path.child("expression"), "expression is not specified")
        else:
            yield from self._compiled(
                validation.expression, path.child("expression"), policy.BOOL, self._variables
            )
        yield from self._message_expression(
            validation.message_expression, path.child("messageExpression")
        )
        message, message_path = validation.message, path.child("message")
        if message and not message.strip():
            yield fields.invalid(message_path, message, "must be non-empty if specified")
        elif re.search(r"[\n\r]", message.strip()):
            yield fields.invalid(message_path, message, "must not contain line breaks")
        yield from fields.one_of(path.child("reason"), validation.reason, REASONS)

    def _message_expression(self, text: str, path: fields.Path) -> fields.Errors:
        if text and not text.strip():
            yield fields.invalid(path, text, "must be non-empty if specified")
        elif text:
            yield from self._compiled(
                text, path, policy.STRING, self._variables, has_authorizer=False
            )

    def _audit_annotation(
        self, annotation: api.AuditAnnotation, path: fields.Path
    ) -> fields.Errors:
        name = self.value.metadata.name
        if name:
            key = f"{name}/{annotation.key}"
            yield from _qualified_name(key, path.child("key"))
        else:
            yield fields.invalid(
                path.child("key"), annotation.key, "requires metadata.name be non-empty"
            )
        expression, path = annotation.value_expression.strip(), path.child("valueExpression")
        if not expression:
            yield fields.required(path, "valueExpression is not specified")
        elif len(expression.encode()) > MAX_VALUE_EXPRESSION_BYTES:
            detail = f"must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length"
            yield fields.required(path, detail)
        else:
            yield from self._compiled(expression, path, policy.STRING_OR_NULL, self._variables)

    def _compiled(
        self,
        text: str,
        path: fields.Path,
        result_types: tuple[Type, ...],
        variables: Mapping[str, Type] | None,
        *,
        has_authorizer: bool = True,
    ) -> fields.Errors:
        scope = self._scope(text, variables, has_authorizer=has_authorizer)
        compiled = policy.compile_expression(text, scope.environment(), result_types)
        yield from _compile_error(path, compiled)

    def _scope(
        self, text: str, variables: Mapping[str, Type] | None, *, has_authorizer: bool = True
    ) -> Scope:
        return Scope(
            self._spec.param_kind is not None, has_authorizer, text in self.stored, variables
        )


def _compile_error(path: fields.Path, compiled: CompiledExpression) -> fields.Errors:
    if compiled.is_internal:
        yield fields.internal_error(path, compiled.error)
    elif compiled.error:
        yield fields.invalid(path, compiled.text, compiled.error)


def _qualified_name(value: str, path: fields.Path) -> fields.Errors:
    yield from fields.invalid_details(path, value, names.qualified_name_errors(value))


def _param_kind(kind: api.ParamKind, path: fields.Path) -> fields.Errors:
    version_path, text = path.child("apiVersion"), kind.api_version
    if not text:
        yield fields.required(version_path)
    elif text.count("/") > 1:
        yield fields.invalid(version_path, text, f"unexpected GroupVersion string: {text}")
    else:
        group, _, version = text.rpartition("/")
        if group and (errors := names.dns_subdomain_errors(group)):
            yield fields.invalid(version_path, group, ",".join(errors))
        if not version:
            yield fields.invalid(version_path, text, "version must be specified")
        elif errors := names.dns_1035_label_errors(version):
            yield fields.invalid(version_path, version, ",".join(errors))
    if not kind.kind:
        yield fields.required(path.child("kind"))
    elif errors := names.dns_1035_label_errors(kind.kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(errors)}"
        yield fields.invalid(path.child("kind"), kind.kind, detail)
