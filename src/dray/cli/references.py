"""Which objects a command is about: `pods`, `pods a b`, `pod/a claim/b`, `pods,claims`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.kinds import Kind
from dray.cli.failures import WrongUsage
from dray.cli.resources import Resources


class Reference(NamedTuple):
    """Objects of one kind: the named one, or all where `name` is empty."""

    kind: Kind
    name: str = ""


async def resolve(words: Sequence[str], resources: Resources) -> list[Reference]:
    """What the words on the command line mean, in their order."""
    if any("/" in word for word in words):
        return [await _single(word, resources) for word in words]
    types, *names = words
    kinds = [kind for name in types.split(",") for kind in await resources.named(name)]
    if not names:
        return [Reference(kind) for kind in dict.fromkeys(kinds)]
    return [Reference(kind, name) for kind in kinds for name in names]


async def _single(word: str, resources: Resources) -> Reference:
    type_name, slash, name = word.partition("/")
    if not slash or not name or "/" in name:
        raise WrongUsage(f"{word}: write TYPE/NAME, and no other form beside it")
    return Reference((await resources.named(type_name))[0], name)


def require_names(references: Sequence[Reference], what: str) -> None:
    """For commands that must not mean everything by mistake."""
    for each in references:
        if not each.name:
            raise WrongUsage(f"{what} needs a name: {each.kind.plural}/NAME", "Or give --all.")
