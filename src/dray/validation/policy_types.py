"""Checks the expressions of an admission policy against the types of the kinds that it matches.

Follows apiserver, admission/plugin/policy/validating/typechecking.go. The warnings change nothing
about a policy: at run time, objects have no types. A quantity and a number or text have no type
here either, so that nothing is reported which could be right.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from dray.api import kinds
from dray.api.kinds import GroupVersionKind
from dray.api.schema import field_types
from dray.api.schema.field_types import WireForm
from dray.api.types import admission as api
from dray.cel import policy, types
from dray.cel.policy import NamedExpression, Scope
from dray.cel.types import Type
from dray.validation import fields
from dray.validation.policies import CEL_KEYWORDS

MAX_KINDS = 10
_WILDCARD = "*"
_VALIDATIONS = fields.SPEC.child("validations")

_FORMS: Mapping[WireForm, Type] = {
    WireForm.STRING: types.STRING,
    WireForm.BOOLEAN: types.BOOL,
    WireForm.INT32: types.INT,
    WireForm.INT64: types.INT,
    WireForm.FLOAT: types.DOUBLE,
    WireForm.BYTES: types.BYTES,
    WireForm.TIME: types.TIMESTAMP,
    WireForm.MICRO_TIME: types.TIMESTAMP,
}


def warnings(spec: api.ValidatingAdmissionPolicySpec) -> Iterator[api.ExpressionWarning]:
    """Yield what does not fit in the validations and their messages, in their order."""
    scopes = [(gvk, _scope(spec, gvk)) for gvk in _matched_kinds(spec)]
    for index, validation in enumerate(spec.validations):
        for name, expression in (
            ("expression", validation.expression),
            ("messageExpression", validation.message_expression),
        ):
            problems = list(_problems(expression, scopes)) if expression else []
            if problems:
                path = _VALIDATIONS.index(index).child(name)
                yield api.ExpressionWarning(str(path), "\n".join(problems))


def _problems(expression: str, scopes: Iterable[tuple[GroupVersionKind, Scope]]) -> Iterator[str]:
    for gvk, scope in scopes:
        compiled = policy.compile_expression(expression, scope.environment(), policy.ANYTHING)
        if compiled.error:
            yield f"{gvk.group}/{gvk.version}, Kind={gvk.kind}: {compiled.error}\n"


def _scope(spec: api.ValidatingAdmissionPolicySpec, gvk: GroupVersionKind) -> Scope:
    """Return what expressions may name if the policy matches an object of this kind."""
    objects = {"object": _type_of(gvk), "oldObject": _type_of(gvk)}
    structures = dict(_structures(gvk.schema_type))
    params = _params(spec.param_kind)
    if params is not None:
        objects["params"] = _type_of(params)
        structures.update(_structures(params.schema_type))
    named = [NamedExpression(variable.name, variable.expression) for variable in spec.variables]
    scope = Scope(spec.param_kind is not None, objects=objects, structures=structures)
    return policy.compile_variables(named, scope)[1]


def _params(param_kind: api.ParamKind | None) -> GroupVersionKind | None:
    if param_kind is None:
        return None
    group, version = kinds.parse_api_version(param_kind.api_version)
    kind = kinds.by_kind(group, param_kind.kind)
    return kind.in_version(version) if kind and version in kind.versions else None


def _matched_kinds(spec: api.ValidatingAdmissionPolicySpec) -> list[GroupVersionKind]:
    """Return the kinds that rules without wildcards name, at most ten of one rule."""
    found: set[GroupVersionKind] = set()
    for rule in spec.match_constraints.resource_rules if spec.match_constraints else ():
        named = set(_named_kinds(rule))
        found.update(sorted(named)[:MAX_KINDS])
        if len(named) >= MAX_KINDS:
            break
    return sorted(found)


def _named_kinds(rule: api.NamedRuleWithOperations) -> Iterator[GroupVersionKind]:
    if _WILDCARD in rule.api_groups or _WILDCARD in rule.api_versions:
        return
    for group in rule.api_groups:
        for version in rule.api_versions:
            for resource in rule.resources:
                kind = kinds.by_resource(group, version, resource)
                if kind is not None:
                    yield kind.in_version(version)


def _type_of(gvk: GroupVersionKind) -> Type:
    return types.object_type(gvk.schema_type)


@functools.cache
def _structures(root: str) -> Mapping[str, Mapping[str, Type]]:
    """Return the fields of a structure and of all structures in it, by the names of both."""
    found: dict[str, Mapping[str, Type]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        schema_fields = field_types.fields(name)
        found[name] = dict(_cel_fields(schema_fields.values()))
        contents = (field.type.content for field in schema_fields.values())
        waiting += [content.name for content in contents if content.form is WireForm.STRUCT]
    return found


def _cel_fields(schema_fields: Iterable[field_types.SchemaField]) -> Iterator[tuple[str, Type]]:
    for field in schema_fields:
        yield field.name, _cel_type(field.type)
        if field.name in CEL_KEYWORDS:
            yield f"__{field.name}__", _cel_type(field.type)


def _cel_type(type: field_types.Type) -> Type:
    if type.form is WireForm.STRUCT:
        return types.object_type(type.name)
    if type.form is WireForm.LIST and type.element is not None:
        return types.list_of(_cel_type(type.element))
    if type.form is WireForm.MAP and type.element is not None:
        return types.map_of(types.STRING, _cel_type(type.element))
    return _FORMS.get(type.form, types.DYN)
