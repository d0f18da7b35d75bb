"""Objects from files: YAML or JSON, several in one file, directories, standard input, Lists."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec
import yaml

from dray.api.formats import bounded_yaml
from dray.api.types.meta import JsonObject
from dray.cli.command_errors import WrongUsage

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "-"
STANDARD_INPUT_NAME = "standard input"


class Manifest(NamedTuple):
    """One object and the file it is from."""

    source: str
    document: JsonObject

    @property
    def name(self) -> str:
        return str((self.document.get("metadata") or {}).get("name", ""))

    @property
    def type(self) -> tuple[str, str]:
        """Return apiVersion and kind. Raises WrongUsage for an object without them."""
        api_version, kind = self.document.get("apiVersion"), self.document.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise WrongUsage(f"{self.source}: an object without apiVersion or kind")
        return api_version, kind


class Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that keeps timestamps as text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def files_option(*, required: bool = False) -> Callable[[Decorated], Decorated]:
    return click.option(
        "--filename",
        "-f",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        help="A file, a directory or - for standard input; may be repeated.",
    )


recursive_option = click.option(
    "--recursive", "-R", is_flag=True, help="Also files in subdirectories."
)


def read(files: Iterable[str], *, recursive: bool = False) -> list[Manifest]:
    """Read every object of the files; Lists become their items."""
    return [
        Manifest(source, document)
        for source, text in texts(files, recursive=recursive)
        for document in documents(source, text)
    ]


def texts(files: Iterable[str], *, recursive: bool = False) -> Iterator[tuple[str, str]]:
    """Yield name and content of every file, including those in directories."""
    for file in files:
        yield from _texts_of(file, recursive)


def _texts_of(file: str, recursive: bool) -> Iterator[tuple[str, str]]:
    if file == STANDARD_INPUT:
        yield STANDARD_INPUT_NAME, sys.stdin.read()
        return
    path = Path(file)
    for item in _files_in(path, recursive) if path.is_dir() else [path]:
        try:
            # Not read_text, which takes three times as long for a large snapshot.
            yield str(item), _with_newlines(item.read_bytes().decode("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise WrongUsage(f"{item}: cannot be read: {reason}") from error


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _files_in(directory: Path, recursive: bool) -> list[Path]:
    paths = directory.rglob("*") if recursive else directory.iterdir()
    files = sorted(path for path in paths if path.suffix in SUFFIXES and path.is_file())
    if not files:
        raise WrongUsage(f"{directory}: has no file that ends in {', '.join(SUFFIXES)}")
    return files


def documents(source: str, text: str) -> Iterator[JsonObject]:
    """Yield the objects of one text."""
    try:
        for document in _parsed(text):
            if document is not None:
                yield from _objects(source, document)
    except bounded_yaml.YamlError as error:
        problem = f"line {error.line}: {error.problem}"
        raise WrongUsage(f"{source}: is not YAML: {problem}") from error


def _parsed(text: str) -> Iterable[Any]:
    """Parse a text. JSON is also YAML, but the JSON decoder is a hundred times faster."""
    if text.lstrip().startswith("{"):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return [msgspec.json.decode(text)]
    return bounded_yaml.load_all(text, bounded_yaml.FILE)


def _objects(source: str, document: Any) -> Iterator[JsonObject]:
    if not isinstance(document, dict):
        raise WrongUsage(f"{source}: an object is expected, not {type(document).__name__}")
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        for item in items:
            yield from _objects(source, _as_item(document, item))
    else:
        yield document


def _as_item(parent: JsonObject, item: Any) -> Any:
    """Return an item of a typed list with the type that the list implies."""
    kind = str(parent["kind"]).removesuffix("List")
    if not isinstance(item, dict) or not kind:
        return item
    return {"apiVersion": parent.get("apiVersion"), "kind": kind, **item}
