"""Kubernetes' library of named formats (apiserver, cel/library/format.go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dray.api.formats import names
from dray.cel.functions import cost_estimates, runtime_costs
from dray.cel.functions.dispatching import charged, function
from dray.cel.functions.overloads import CallEstimate, Function, Library, Operand, Overload, member
from dray.cel.runtime import times, urls, values
from dray.cel.runtime.values import EvaluationError, Optional
from dray.cel.types import NAMED_FORMAT, STRING, Type, list_of, optional_of

_MAXIMUM_REGEX_SIZE = 128
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII
)
_UUID = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII | re.IGNORECASE
)
_TIME = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """`regex_size` is what upstream bases the cost of a validation on."""

    cel_type: ClassVar[Type] = NAMED_FORMAT

    name: str
    errors: Callable[[str], list[str]] = field(compare=False)
    regex_size: int = field(compare=False)


def _of_prefix(errors: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda value: errors(names.generated_name_example(value))


def _complaint(is_valid: Callable[[str], object], message: str) -> Callable[[str], list[str]]:
    return lambda value: [] if is_valid(value) else [message]


def _uri_errors(value: str) -> list[str]:
    try:
        urls.parse_request(value)
    except urls.UrlError as error:
        return [str(error)]
    return []


def _is_date(value: str) -> bool:
    try:
        times.parse_timestamp(f"{value}T00:00:00Z")
    except EvaluationError as error:
        return str(error) == "timestamp overflow"
    return len(value) == len("2006-01-02")


def _is_datetime(value: str) -> bool:
    date, separator, rest = value.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or not _is_date(date) or not match:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", names.dns_label_errors, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", names.dns_subdomain_errors, 60),
    "dns1035Label": NamedFormat("DNS1035Label", names.dns_1035_label_errors, 30),
    "qualifiedName": NamedFormat("QualifiedName", names.qualified_name_errors, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _of_prefix(names.dns_label_errors), 30),
    "dns1123SubdomainPrefix": NamedFormat(
        "DNS1123SubdomainPrefix", _of_prefix(names.dns_subdomain_errors), 60
    ),
    "dns1035LabelPrefix": NamedFormat(
        "DNS1035LabelPrefix", _of_prefix(names.dns_1035_label_errors), 30
    ),
    "labelValue": NamedFormat("LabelValue", names.label_value_errors, 40),
    "uri": NamedFormat("URI", _uri_errors, 1103),
    "uuid": NamedFormat("uuid", _complaint(_UUID.fullmatch, "does not match the UUID format"), 70),
    "byte": NamedFormat("byte", _complaint(_BASE64.fullmatch, "invalid base64"), 84),
    "date": NamedFormat("date", _complaint(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _complaint(_is_datetime, "invalid datetime"), 71),
}


def named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else values.NONE


def validate(format: NamedFormat, value: str) -> Optional:
    """Return the optional list of errors in a value; none if it is valid."""
    errors = format.errors(value)
    return Optional(errors) if errors else values.NONE


def _validate_estimate(operands: Sequence[Operand]) -> CallEstimate:
    text = operands[1].size_or_unknown.scale(runtime_costs.STRING_FACTOR)
    return CallEstimate(text.scale(_MAXIMUM_REGEX_SIZE * runtime_costs.REGEX_FACTOR))


def _validate_cost(arguments: Sequence[Any], result: Any) -> int:
    format, value = arguments
    if not isinstance(format, NamedFormat):
        return 1
    return runtime_costs.match_size(runtime_costs.size(value), format.regex_size)


def _constant(name: str, format: NamedFormat) -> Function:
    return function(name, Overload(name, (), NAMED_FORMAT, lambda: format))


LIBRARY: Library = (
    *(_constant(f"format.{name}", format) for name, format in _FORMATS.items()),
    function(
        "format.named",
        Overload(
            "format-named", (STRING,), optional_of(NAMED_FORMAT), named, cost_estimates.nominal
        ),
    ),
    charged(
        "validate",
        member(
            "format-validate",
            (NAMED_FORMAT, STRING),
            optional_of(list_of(STRING)),
            validate,
            _validate_estimate,
            _validate_cost,
        ),
    ),
)
