"""Templates of files: `@name@` stands for a value, lines such as `@if shared@` for a choice."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

_VALUE = re.compile(r"@([a-z]+)@")
_IF = re.compile(r"@if (not )?([a-z]+)(?: or ([a-z]+))?@")


class TemplateError(ValueError):
    """A template is not well formed."""


def rendered(template: str, values: Mapping[str, str], chosen: Collection[str]) -> str:
    """Return a template with its values, and without the lines of what is not chosen.

    A choice is `@if NAME@`, `@if not NAME@` or `@if NAME or NAME@`, then `@else@` and `@end@`.
    """
    lines = "".join(_chosen_lines(template, chosen))
    return _VALUE.sub(lambda match: values[match[1]], lines)


def _chosen_lines(template: str, chosen: Collection[str]) -> Iterator[str]:
    shown: list[bool] = []
    for line in template.splitlines(keepends=True):
        words = line.strip()
        if condition := _IF.fullmatch(words):
            is_chosen = any(name in chosen for name in condition.groups()[1:])
            shown.append(is_chosen != bool(condition[1]))
        elif words in ("@else@", "@end@"):
            if not shown:
                raise TemplateError(f"{words} without @if@")
            last = shown.pop()
            if words == "@else@":
                shown.append(not last)
        elif all(shown):
            yield line
    if shown:
        raise TemplateError("@if@ without @end@")
