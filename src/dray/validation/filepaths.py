"""Rules for paths in files: relative, and never up."""

from __future__ import annotations

from dray.validation import fields


def no_backsteps(value: str, path: fields.Path) -> fields.Errors:
    if ".." in value.split("/"):
        yield fields.invalid(path, value, "must not contain '..'")


def relative(value: str, path: fields.Path) -> fields.Errors:
    if value.startswith("/"):
        yield fields.invalid(path, value, "must be a relative path")
    yield from no_backsteps(value, path)


def relative_and_not_reserved(value: str, path: fields.Path) -> fields.Errors:
    """Names that start with ".." are for what the node agent itself puts into a volume."""
    yield from relative(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield fields.invalid(path, value, "must not start with '..'")
