"""Findings of lint, and the changes that correct them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from dray.cli.lint.rules import Severity

if TYPE_CHECKING:
    from dray.cli.lint.field_changes import FieldChange, TextEdit
    from dray.cli.lint.source_documents import Document


class Suggestion(NamedTuple):
    """A change of a manifest that was not tried yet, and the words for it."""

    advice: str
    changes: tuple[FieldChange, ...] = ()
    """Changes of one object; or else `text`."""
    text: str = ""
    """The whole file after the change."""
    is_correction: bool = True
    """Whether it keeps what the author asks for."""
    target: Document | None = None
    """The object to change, if that is not the one with the finding."""


class FileFix(NamedTuple):
    """A file after a suggestion that was tried with success."""

    file: str
    text: str
    is_correction: bool
    edit: TextEdit | None = None
    """The change of the file, if that is in one object; then the line where that begins."""
    object_line: int = 0


class Finding(NamedTuple):
    """A problem in a file.

    `advice` is the correction in words. `suggestions` are changes of the file, the best first; the
    words of the first one that was tried with success become the advice.
    """

    file: str
    line: int
    column: int
    severity: Severity
    rule: str
    message: str
    advice: str = ""
    suggestions: Iterable[Suggestion] = ()
    document: Document | None = None
    fix: FileFix | None = None
