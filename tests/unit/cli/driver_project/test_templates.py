"""Templates: values, and lines that depend on choices."""

from __future__ import annotations

import pytest

from dray.cli.driver_project import templates
from dray.cli.driver_project.templates import TemplateError

TEMPLATE = """\
@name@ begins
@if a@
a
@if not b@
a alone
@end@
@else@
not a
@end@
@if a or b@
one of them
@end@
"""


@pytest.mark.parametrize(
    ("chosen", "lines"),
    [
        ("", ["x begins", "not a"]),
        ("a", ["x begins", "a", "a alone", "one of them"]),
        ("b", ["x begins", "not a", "one of them"]),
        ("ab", ["x begins", "a", "one of them"]),
    ],
)
def test_lines_depend_on_choices(chosen: str, lines: list[str]) -> None:
    assert templates.rendered(TEMPLATE, {"name": "x"}, set(chosen)).splitlines() == lines


@pytest.mark.parametrize("text", ["@if a@\n", "@end@\n", "@if a@\n@end@\n@else@\n"])
def test_a_template_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        templates.rendered(text, {}, set())


def test_an_unknown_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        templates.rendered("@absent@", {}, set())
