"""The person who asks for a page, and the question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from dray.ui.model.explainer import Explainer
from dray.ui.model.followed_cluster import FollowedCluster
from dray.ui.pages.page_errors import PageError
from dray.ui.people import Person

LONGEST_NAME = 512


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person at a model. Objects are read again for a page, with the person's identity."""

    person: Person
    model: FollowedCluster
    explainer: Explainer


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """The path of a page below the API, in parts, and its parameters."""

    parts: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str, longest: int = LONGEST_NAME) -> str:
        """Return a parameter that has to be there. Raises PageError."""
        value = self.parameters.get(name, "")
        if not value:
            raise PageError(400, f"the parameter {name} is missing")
        if len(value) > longest:
            raise PageError(400, f"the parameter {name} is longer than {longest} characters")
        return value

    def optional(self, name: str) -> str:
        return self.parameters[name][:LONGEST_NAME] if name in self.parameters else ""

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number within limits. Raises PageError."""
        text = self.parameters.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise PageError(400, f"the parameter {name} is not a whole number")
        if not least <= int(text) <= most:
            raise PageError(400, f"the parameter {name} is not between {least} and {most}")
        return int(text)


def question_of(path: str, parameters: Mapping[str, str]) -> PageQuestion:
    """Return the question of a path that is still encoded. Raises PageError."""
    try:
        parts = tuple(unquote(part, errors="strict") for part in path.split("/"))
    except UnicodeDecodeError as error:
        raise PageError(400, "the address is not valid") from error
    if not all(parts) or any(len(part) > LONGEST_NAME or "\0" in part for part in parts):
        raise PageError(400, "a name in the address is empty, too long or not valid")
    return PageQuestion(parts, parameters)
