"""Names: which values are accepted, and the words for the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.api.formats import names

Check = Callable[[str], list[str]]

DNS_LABEL_COMPLAINT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', "
    "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS_SUBDOMAIN_COMPLAINT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_NAME_COMPLAINT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (names.dns_label_errors, "0"),
        (names.dns_label_errors, "a--b"),
        (names.dns_label_errors, "a" * 63),
        (names.dns_subdomain_errors, "1.a-b.c"),
        (names.dns_subdomain_errors, "a" * 253),
        (names.caseless_dns_subdomain_errors, "GPU.Example.com"),
        (names.underscore_dns_subdomain_errors, "_sip.a_b.c"),
        (names.dns_1035_label_errors, "a1"),
        (names.qualified_name_errors, "simple"),
        (names.qualified_name_errors, "1.2.3.4/5678"),
        (names.qualified_name_errors, "a" * 253 + "/" + "A" * 63),
        (names.label_value_errors, ""),
        (names.label_value_errors, "x-_.Y"),
        (names.c_identifier_errors, "_a1"),
        (names.percent_errors, "100%"),
        (names.http_path_errors, "a/b%20c"),
        (names.path_segment_errors, "..."),
        (names.path_segment_prefix_errors, "."),
        (names.relaxed_environment_variable_errors, "1 + 1"),
        (names.config_key_errors, ".dockerconfigjson"),
        (names.port_name_errors, "http-2"),
    ],
)
def test_accepted(check: Check, value: str) -> None:
    assert check(value) == []


@pytest.mark.parametrize(
    ("check", "value", "errors"),
    [
        (names.dns_label_errors, "", [DNS_LABEL_COMPLAINT]),
        (names.dns_label_errors, "A", [DNS_LABEL_COMPLAINT]),
        (names.dns_label_errors, "a\n", [DNS_LABEL_COMPLAINT]),
        (names.dns_label_errors, "a.b", ["must not contain dots"]),
        (names.dns_label_errors, "a" * 64, ["must be no more than 63 characters"]),
        (
            names.dns_label_errors,
            "a." * 32 + "b",
            ["must be no more than 63 characters", "must not contain dots"],
        ),
        (names.dns_subdomain_errors, "a..b", [DNS_SUBDOMAIN_COMPLAINT]),
        (
            names.dns_subdomain_errors,
            "é" * 127,
            ["must be no more than 253 characters", DNS_SUBDOMAIN_COMPLAINT],
        ),
        (names.qualified_name_errors, "/a", ["prefix part must be non-empty"]),
        (
            names.qualified_name_errors,
            "a/",
            ["name part must be non-empty", f"name part {LABEL_NAME_COMPLAINT}"],
        ),
        (names.qualified_name_errors, "a" * 64, ["name part must be no more than 63 bytes"]),
        (
            names.qualified_name_errors,
            "a" * 254 + "/b",
            ["prefix part must be no more than 253 bytes"],
        ),
        (names.qualified_name_errors, "A/b", [f"prefix part {DNS_SUBDOMAIN_COMPLAINT}"]),
        (
            names.qualified_name_errors,
            "a/b/c",
            [
                f"a valid label key {LABEL_NAME_COMPLAINT} with an optional DNS subdomain prefix "
                "and '/' (e.g. 'example.com/MyName')"
            ],
        ),
        (names.label_value_errors, "a" * 64, ["must be no more than 63 bytes"]),
        (names.path_segment_errors, "..", ["may not be '..'"]),
        (names.path_segment_errors, "a/b%", ["may not contain '/'", "may not contain '%'"]),
        (names.path_segment_errors, "a\0", [r"may not contain '\x00'"]),
        (names.config_key_errors, "..a", ["must not start with '..'"]),
        (
            names.relaxed_environment_variable_errors,
            "",
            ["environment variable name must be non-empty"],
        ),
        (
            names.port_name_errors,
            "-1--",
            [
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
    ],
)
def test_refused(check: Check, value: str, errors: list[str]) -> None:
    assert check(value) == errors


def test_declarative_checks_speak_of_bytes() -> None:
    assert names.dns_label_errors("a" * 64, "bytes") == ["must be no more than 63 bytes"]
    assert names.dns_subdomain_errors("a" * 254, "bytes") == ["must be no more than 253 bytes"]


@pytest.mark.parametrize(
    ("prefix", "example"),
    [("web", "web"), ("web-", "wea"), ("-", "-"), ("a--", "aa"), ("A-", "a")],
)
def test_example_of_a_generated_name(prefix: str, example: str) -> None:
    assert names.generated_name_example(prefix) == example


def test_a_prefix_that_ends_with_a_dash_may_be_one_character_too_long() -> None:
    prefix = "a" * 253 + "-"
    assert names.dns_subdomain_errors(names.generated_name_example(prefix)) == []
