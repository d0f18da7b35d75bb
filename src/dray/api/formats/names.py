"""Rules for names: DNS labels, subdomains, qualified names, C identifiers.

Every `..._errors` function lists what is wrong with a value, in the words of Kubernetes
(apimachinery, util/validation and api/validate/content); an empty list means the value is fine.
Lengths are counted in bytes, as in Go. Kubernetes words them as "characters" in hand-written
checks and as "bytes" in declarative ones: `unit` says which.
"""

from __future__ import annotations

import functools
import re
from typing import Final, Literal

LengthUnit = Literal["characters", "bytes"]

DNS_LABEL_MAX_BYTES: Final = 63
DNS_SUBDOMAIN_MAX_BYTES: Final = 253
LABEL_NAME_MAX_BYTES: Final = 63
LABEL_VALUE_MAX_BYTES: Final = 63
PORT_NAME_MAX_BYTES: Final = 15


class _Format:
    """A regular expression and the sentence about a value that does not match it."""

    def __init__(self, expression: str, rule: str, *examples: str, flags: int = 0) -> None:
        self.complaint = _regex_complaint(expression, rule, examples)
        self._pattern = re.compile(expression, re.ASCII | flags)

    def accepts(self, value: str) -> bool:
        return self._pattern.fullmatch(value) is not None


def _regex_complaint(expression: str, rule: str, examples: tuple[str, ...]) -> str:
    quoted = " or ".join(f"'{example}', " for example in examples)
    listed = f"e.g. {quoted}" if examples else ""
    return f"{rule} ({listed}regex used for validation is '{expression}')"


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_EXAMPLES = ("MyName", "my.name", "123-abc")

_DNS_LABEL = _Format(
    _LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    "my-name",
    "123-abc",
)
_DNS_SUBDOMAIN = _Format(
    _SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character",
    "example.com",
)
_CASELESS_DNS_SUBDOMAIN = _Format(
    _SUBDOMAIN,
    "an RFC 1123 subdomain must consist of alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character",
    "Example.com",
    flags=re.IGNORECASE,
)
_UNDERSCORE_DNS_SUBDOMAIN = _Format(
    rf"{_UNDERSCORE_LABEL}(\.{_UNDERSCORE_LABEL})*",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'_', '-' or '.', and must start and end with an alphanumeric character",
    "example.com",
)
_DNS_1035_LABEL = _Format(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_LABEL_NAME = _Format(_KEY, _KEY_RULE, *_KEY_EXAMPLES)
_LABEL_VALUE = _Format(
    f"({_KEY})?",
    f"a valid label must be an empty string or {_KEY_RULE.removeprefix('must ')}",
    "MyValue",
    "my_value",
    "12345",
)
_C_IDENTIFIER = _Format(
    "[A-Za-z_][A-Za-z0-9_]*",
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
)
_PERCENT = _Format(
    "[0-9]+%",
    "a valid percent string must be a numeric string followed by an ending '%'",
    "1%",
    "93%",
)
_CONFIG_KEY = _Format(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "key.name",
    "KEY_NAME",
    "key-name",
)
_HTTP_PATH = _Format(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", "Invalid path")
_PORT_CHARACTERS = re.compile("[-a-z0-9]+")
_PORT_LETTER = re.compile("[a-z]")
_TOO_MANY_SLASHES = (
    f"a valid label key {_LABEL_NAME.complaint} "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


def length_errors(value: str, max_bytes: int, unit: LengthUnit = "characters") -> list[str]:
    if len(value.encode()) <= max_bytes:
        return []
    return [f"must be no more than {max_bytes} {unit}"]


@functools.lru_cache(maxsize=4096)
def _accepts_remembered(form: _Format, value: str) -> bool:
    """Cache the result for short names, which objects repeat often."""
    return form.accepts(value)


def _format_errors(value: str, form: _Format, max_bytes: int, unit: LengthUnit) -> list[str]:
    if len(value) <= max_bytes and _accepts_remembered(form, value):
        # Of an ASCII text, as all that are accepted are, characters and bytes are as many.
        return []
    if form.accepts(value):
        return length_errors(value, max_bytes, unit)
    return [*length_errors(value, max_bytes, unit), form.complaint]


def dns_label_errors(value: str, unit: LengthUnit = "characters") -> list[str]:
    """Check an RFC 1123 label: Kubernetes' short name."""
    errors = _format_errors(value, _DNS_LABEL, DNS_LABEL_MAX_BYTES, unit)
    if errors and _DNS_SUBDOMAIN.accepts(value) and not _DNS_LABEL.accepts(value):
        errors[-1] = "must not contain dots"
    return errors


def dns_subdomain_errors(value: str, unit: LengthUnit = "characters") -> list[str]:
    """Check an RFC 1123 subdomain: Kubernetes' long name."""
    return _format_errors(value, _DNS_SUBDOMAIN, DNS_SUBDOMAIN_MAX_BYTES, unit)


def caseless_dns_subdomain_errors(value: str) -> list[str]:
    """Check an RFC 1123 subdomain that may have upper case letters, as driver names may."""
    return _format_errors(value, _CASELESS_DNS_SUBDOMAIN, DNS_SUBDOMAIN_MAX_BYTES, "bytes")


def underscore_dns_subdomain_errors(value: str) -> list[str]:
    return _format_errors(value, _UNDERSCORE_DNS_SUBDOMAIN, DNS_SUBDOMAIN_MAX_BYTES, "characters")


def dns_1035_label_errors(value: str) -> list[str]:
    """Check an RFC 1035 label, as of services: a DNS label that starts with a letter."""
    return _format_errors(value, _DNS_1035_LABEL, DNS_LABEL_MAX_BYTES, "characters")


def qualified_name_errors(value: str) -> list[str]:
    """Check a label key: a name with an optional DNS subdomain and '/' before it."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [_TOO_MANY_SLASHES]
    return [*(_prefix_errors(prefix) if slash else ()), *_label_name_errors(name)]


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {error}" for error in dns_subdomain_errors(prefix, "bytes")]


def _label_name_errors(name: str) -> list[str]:
    if not name:
        return ["name part must be non-empty", f"name part {_LABEL_NAME.complaint}"]
    errors = _format_errors(name, _LABEL_NAME, LABEL_NAME_MAX_BYTES, "bytes")
    return [f"name part {error}" for error in errors]


def label_value_errors(value: str) -> list[str]:
    return _format_errors(value, _LABEL_VALUE, LABEL_VALUE_MAX_BYTES, "bytes")


def c_identifier_errors(value: str) -> list[str]:
    return [] if _C_IDENTIFIER.accepts(value) else [_C_IDENTIFIER.complaint]


def percent_errors(value: str) -> list[str]:
    return [] if _PERCENT.accepts(value) else [_PERCENT.complaint]


def http_path_errors(value: str) -> list[str]:
    """Check the part after the '/' of a domain-prefixed path such as a signer or finalizer name."""
    return [] if _HTTP_PATH.accepts(value) else [_HTTP_PATH.complaint]


def path_segment_errors(value: str) -> list[str]:
    """Check a name for characters that would break an object's URL."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return path_segment_prefix_errors(value)


def path_segment_prefix_errors(value: str) -> list[str]:
    """Check a value to which something will be appended as `path_segment_errors` does."""
    errors = [f"may not contain '{character}'" for character in "/%" if character in value]
    if "\0" in value:
        # Kubernetes takes it, and no tool can name the object afterwards.
        errors.append(r"may not contain '\x00'")
    return errors


def generated_name_example(prefix: str) -> str:
    """Return a name that is valid if and only if names made from this `generateName` are.

    One character shorter than the prefix when that ends with a dash, as in apimachinery,
    api/validation, maskTrailingDash: so a prefix may be one character too long.
    """
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def relaxed_environment_variable_errors(value: str) -> list[str]:
    """Check a container's variable name: printable ASCII without '='."""
    if not value:
        return ["environment variable name must be non-empty"]
    if value.isascii() and value.isprintable() and "=" not in value:
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    ]


def config_key_errors(value: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    errors = _format_errors(value, _CONFIG_KEY, DNS_SUBDOMAIN_MAX_BYTES, "characters")
    return errors + _parent_directory_errors(value)


def _parent_directory_errors(value: str) -> list[str]:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def port_name_errors(value: str) -> list[str]:
    errors = length_errors(value, PORT_NAME_MAX_BYTES)
    if not _PORT_CHARACTERS.fullmatch(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _PORT_LETTER.search(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors
