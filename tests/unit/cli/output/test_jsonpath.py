"""kubectl's JSONPath: what it finds and how it prints it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.cli.command_errors import JsonPathError
from dray.cli.output import jsonpath, jsonpath_hints

PODS: dict[str, Any] = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": "a", "labels": {"app.example.com/x": "1", "app": "web"}},
            "status": {"phase": "Running", "restarts": 3, "ready": True},
        },
        {
            "metadata": {"name": "b", "labels": {}},
            "status": {"phase": "Pending", "restarts": 0, "load": 0.5, "note": None},
        },
    ],
    "empty": [],
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("plain text", "plain text", id="text"),
        pytest.param("{.kind}", "List", id="field"),
        pytest.param("{$.kind}{@.kind}", "ListList", id="root-and-current"),
        pytest.param("{['kind']}", "List", id="key-in-brackets"),
        pytest.param("{.items[*].metadata.name}", "a b", id="all-elements"),
        pytest.param("{.items.*.metadata.name}", "a b", id="wildcard-of-a-list"),
        pytest.param("{.items[0].metadata.name}", "a", id="index"),
        pytest.param("{.items[-1].metadata.name}", "b", id="negative-index"),
        pytest.param("{.items[-1:].metadata.name}", "b", id="open-slice"),
        pytest.param("{.items[0:2:2].metadata.name}", "a", id="step"),
        pytest.param("{.items[0:0].metadata.name}", "", id="empty-slice"),
        pytest.param("{.items[0,1].metadata.name}", "a b", id="union-of-indexes"),
        pytest.param(
            "{.items[*]['metadata.name', 'status.phase']}",
            "a b Running Pending",
            id="union-of-paths",
        ),
        pytest.param("{..name}", "a b", id="recursive-descent"),
        pytest.param("{.items[0].metadata.labels.app\\.example\\.com/x}", "1", id="escaped-dot"),
        pytest.param(
            "{.items[0].metadata.labels['app\\.example\\.com/x']}",
            "1",
            id="escaped-dot-in-brackets",
        ),
        pytest.param('{.items[?(@.metadata.name=="b")].status.phase}', "Pending", id="filter"),
        pytest.param(
            "{.items[?(@.metadata.name=='b')].status.phase}", "Pending", id="filter-single-quotes"
        ),
        pytest.param(
            '{.items[?(@.metadata.name != "b")].status.phase}',
            "Running",
            id="filter-unequal-with-blanks",
        ),
        pytest.param("{.items[?(@.status.restarts>1)].metadata.name}", "a", id="filter-number"),
        pytest.param("{.items[?(@.status.ready==true)].metadata.name}", "a", id="filter-bool"),
        pytest.param("{.items[?(@.status.load)].metadata.name}", "b", id="filter-exists"),
        pytest.param(
            '{.items[?(@.metadata.name=="a)")].status.phase}', "", id="parenthesis-in-quotes"
        ),
        pytest.param("{.items[*].status.restarts}", "3 0", id="numbers"),
        pytest.param("{.items[0].status.ready}", "true", id="bool"),
        pytest.param("{.items[1].status.load}", "0.5", id="fraction"),
        pytest.param("{.items[1].status.note}", "null", id="null"),
        pytest.param("{.items[1].metadata}", '{"labels":{},"name":"b"}', id="object-is-json"),
        pytest.param("{.nosuch.field}", "", id="missing-is-empty"),
        pytest.param('{.kind}{"\\t"}{.kind}{"\\n"}', "List\tList\n", id="escapes"),
        pytest.param("{'it\\'s \\u00e4'}", "it's ä", id="escaped-quote"),
        pytest.param(
            '{range .items[*]}{.metadata.name}{"="}{.status.phase}{"\\n"}{end}',
            "a=Running\nb=Pending\n",
            id="range",
        ),
        pytest.param(
            "{range .items[*]}[{range .metadata.labels.*}<{@}>{end}]{end}!",
            "[<1><web>][]!",
            id="nested-range",
        ),
        pytest.param("{range .empty[*]}x{end}behind", "behind", id="empty-range"),
        pytest.param("{range .items[*]}{.metadata.name}", "ab", id="range-without-end"),
    ],
)
def test_renders_as_kubectl_does(template: str, expected: str) -> None:
    assert jsonpath.Template(template).render(PODS) == expected


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        pytest.param("{.kind", "unclosed action", id="unclosed"),
        pytest.param("{end}", "not in range, nothing to end", id="end-without-range"),
        pytest.param("{nosuch}", "unrecognized identifier nosuch", id="identifier"),
        pytest.param("{.items[5]}", "index 5, length 2", id="out-of-bounds"),
        pytest.param("{.kind[0]}", "is not array or slice", id="index-into-text"),
        pytest.param("{.items[?(@.metadata.name==1)]}", "incompatible types", id="types"),
        pytest.param("{.items[x]}", "invalid array index x", id="bad-index"),
        pytest.param("{.items[0}", "unterminated array", id="unclosed-array"),
        pytest.param("{'a}", "unterminated quoted string", id="unclosed-quote"),
        pytest.param("{.items[?(@.a}", "unterminated filter", id="unclosed-filter"),
        pytest.param("{....a}", "invalid multiple recursive descent", id="descent-twice"),
        pytest.param("{.items[0:2:0]}", "step must be > 0", id="step-zero"),
    ],
)
def test_says_what_is_wrong(template: str, complaint: str) -> None:
    with pytest.raises(JsonPathError, match=complaint.replace("[", r"\[")):
        jsonpath.Template(template).render(PODS)


@pytest.mark.parametrize("path", [".kind", "kind", "{.kind}", "{kind}"])
def test_a_path_alone_needs_neither_braces_nor_dot(path: str) -> None:
    assert jsonpath.relaxed(path).find(PODS) == ["List"]


def test_missing_keys_can_be_an_error() -> None:
    with pytest.raises(JsonPathError, match="nosuch is not found"):
        jsonpath.Template("{.nosuch}", requires_keys=True).render(PODS)


CLAIMS = {
    "items": [
        {"metadata": {"name": "waiting"}, "status": {}},
        {
            "metadata": {"name": "held"},
            "status": {"allocation": {"devices": {"results": [{"device": "gpu-0"}]}}},
        },
    ]
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(
            "{range .items[*]}{.metadata.name}{.status.allocation.devices[*].device}{end}",
            [
                "Nothing has .status.allocation.devices[*].device. "
                "Did you mean .status.allocation.devices.results[*].device?"
            ],
            id="list-inside-an-object",
        ),
        pytest.param(
            "{range .items[*]}{.spec.allocation.devices}{end}",
            ["Nothing has .spec.allocation.devices. Did you mean .status.allocation.devices?"],
            id="name-elsewhere",
        ),
        pytest.param(
            "{range .items[*]}{.status.allocation.devices.result[*].device}{end}",
            [
                "Nothing has .status.allocation.devices.result[*].device. "
                "Did you mean .status.allocation.devices.results[*].device?"
            ],
            id="misspelt-on-the-way",
        ),
        pytest.param(
            "{range .items[*]}{.status.reservedFor[*].name}{end}", [], id="absent-and-not-elsewhere"
        ),
        pytest.param("{.items[*].metadata.name}", [], id="found"),
        pytest.param("{range .items[*]}{.status.nosuch}{end}", [], id="nowhere"),
        pytest.param(
            "{range .items[*]}{.status.allocation.devices.results[*].device}{end}",
            [],
            id="found-in-some",
        ),
    ],
)
def test_paths_that_find_nothing_get_a_hint(template: str, expected: list[str]) -> None:
    assert jsonpath_hints.hints(template, CLAIMS) == expected
