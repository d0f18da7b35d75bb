"""Test results as JUnit's XML, which most CI services show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document can hold."""


class Failure(NamedTuple):
    """The kind of a failure, and what failed in one sentence."""

    type: str
    message: str


class Case(NamedTuple):
    """One test case; `file` is the file or object that it is about."""

    file: str
    name: str
    text: str = ""
    failure: Failure | None = None


def document(suite_name: str, cases: Sequence[Case]) -> str:
    """Return the XML of one test suite."""
    # Late: few runs write XML.
    from xml.etree import ElementTree as xml

    failures = sum(case.failure is not None for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures)}
    suites = xml.Element("testsuites", counts)
    suite = xml.SubElement(suites, "testsuite", {"name": suite_name, **counts, "errors": "0"})
    for case in cases:
        file = _clean(case.file)
        attributes = {"classname": file, "file": file, "name": _clean(case.name)}
        element = xml.SubElement(suite, "testcase", attributes)
        if case.failure is not None:
            why = {"type": case.failure.type, "message": _clean(case.failure.message)}
            xml.SubElement(element, "failure", why).text = _clean(case.text)
        elif case.text:
            xml.SubElement(element, "system-out").text = _clean(case.text)
    xml.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml.tostring(suites, "unicode")}\n'


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
