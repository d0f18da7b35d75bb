"""The environment, command and arguments of a container, with every reference filled in.

The kernel limits how long they may be. The limits are applied while references are filled in:
variables that double each other would fill the agent's memory first.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dray.api.types.containers import Container, EnvFromSource, EnvVar
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import value_sources
from dray.node.specs.value_sources import ReadOnce

MAX_STRING_BYTES: Final = 131071
"""One argument, or one variable with its name: 32 pages with the NUL at the end."""
MAX_TOTAL_BYTES: Final = 1_966_080
"""All of them together: a quarter of the usual stack of 8 MiB, less what dray adds."""
_POINTER_BYTES: Final = 8


async def build(
    client: Client, pod: Pod, container: Container, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of a container. Later entries win, and may refer to earlier ones.

    They may also refer to the variables of `given`, which are no part of the answer.

    Raises ContainerConfigError for a variable that no process can be given.
    """
    made: dict[str, str] = {}
    objects = ReadOnce(client, pod.metadata.namespace)
    for index, source in enumerate(container.env_from):
        for name, found in (await _from_all(objects, source)).items():
            made[name] = _checked(name, found, f"{_place(container)}.envFrom[{index}]")
    known = ChainMap(made, dict(given or {}))
    total = sum(_size(name, value) for name, value in made.items())
    for index, variable in enumerate(container.env):
        where = f"{_place(container)}.env[{index}]"
        value = await _value(objects, pod, container, variable, known)
        if value is None:
            continue
        replaced = made.get(variable.name)
        total -= _size(variable.name, replaced) if replaced is not None else 0
        made[variable.name] = _checked(variable.name, value, where)
        total += _size(variable.name, value)
        if total > MAX_TOTAL_BYTES:
            raise ContainerConfigError(f"{where}: {_too_long(MAX_TOTAL_BYTES)}")
    return made


def command(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    return _filled_in(container.command, env, f"{_place(container)}.command")


def arguments(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    return _filled_in(container.args, env, f"{_place(container)}.args")


def check_total(container: Container, argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Check that a process can be started with these. Raises ContainerConfigError."""
    total = sum(len(part.encode()) + 1 + _POINTER_BYTES for part in argv)
    total += sum(_size(name, value) for name, value in env.items())
    if total > MAX_TOTAL_BYTES:
        raise ContainerConfigError(f"{_place(container)}: {_too_long(MAX_TOTAL_BYTES)}")


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by a dollar; unknown names stay as they are.

    Raises ContainerConfigError where the result is longer than the kernel takes.
    """
    made, size = [], 0
    for part in _expanded(text, env):
        made.append(part)
        size += len(part)
        if size > MAX_STRING_BYTES:
            raise ContainerConfigError(f"{text[:64]!r}…: {_too_long(MAX_STRING_BYTES)}")
    return "".join(made)


def _expanded(text: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the parts of a text. Every character is looked at once, also after an open bracket."""
    at, last_close = 0, text.rfind(")")
    while (dollar := text.find("$", at)) >= 0:
        yield text[at:dollar]
        after = text[dollar + 1 : dollar + 2]
        if after == "$":
            yield "$"
            at = dollar + 2
        elif after == "(" and dollar + 2 <= last_close:
            close = text.find(")", dollar + 2)
            yield env.get(text[dollar + 2 : close], text[dollar : close + 1])
            at = close + 1
        else:
            yield "$"
            at = dollar + 1
    yield text[at:]


def _filled_in(texts: Sequence[str], env: Mapping[str, str], where: str) -> tuple[str, ...]:
    made, total = [], 0
    for index, text in enumerate(texts):
        made.append(_checked_text(expand(text, env), f"{where}[{index}]"))
        total += len(made[-1]) + 1 + _POINTER_BYTES
        if total > MAX_TOTAL_BYTES:
            raise ContainerConfigError(f"{where}: {_too_long(MAX_TOTAL_BYTES)}")
    return tuple(made)


def _checked(name: str, value: str, where: str) -> str:
    """Return the value of a variable. Raises ContainerConfigError for one that cannot be set."""
    if not name or "=" in name or "\0" in name:
        raise ContainerConfigError(f"{where}: {name!r} cannot be the name of a variable")
    _checked_text(f"{name}={value}", f"{where} ({name[:64]})")
    return value


def _checked_text(text: str, where: str) -> str:
    if "\0" in text:
        raise ContainerConfigError(f"{where}: it has a NUL byte, which no variable can have")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ContainerConfigError(f"{where}: it is not valid Unicode") from error
    if size > MAX_STRING_BYTES:
        raise ContainerConfigError(f"{where}: {_too_long(MAX_STRING_BYTES)}")
    return text


def _size(name: str, value: str) -> int:
    return len(name.encode()) + len(value.encode()) + 2 + _POINTER_BYTES


def _too_long(limit: int) -> str:
    return f"longer than the {limit} bytes that the kernel takes; put it into a volume"


def _place(container: Container) -> str:
    return f"container {container.name}"


async def _from_all(objects: ReadOnce, source: EnvFromSource) -> dict[str, str]:
    chosen = source.config_map_ref or source.secret_ref
    found = await objects.values(chosen) if chosen else {}
    return {source.prefix + key: value.decode("utf-8", "replace") for key, value in found.items()}


async def _value(
    objects: ReadOnce, pod: Pod, container: Container, variable: EnvVar, env: Mapping[str, str]
) -> str | None:
    """Return the value of a variable, or None where an optional key is missing."""
    source = variable.value_from
    if source is None:
        return expand(variable.value, env)
    if source.field_ref is not None:
        return value_sources.field(pod, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return value_sources.resource(pod, container, source.resource_field_ref)
    reference = source.config_map_key_ref or source.secret_key_ref
    if reference is None:
        raise ContainerConfigError(
            f"environment variable {variable.name}: its source is not supported"
        )
    found = await objects.values(reference)
    if reference.key in found:
        return found[reference.key].decode("utf-8", "replace")
    if reference.optional:
        return None
    kind = "ConfigMap" if source.config_map_key_ref else "Secret"
    raise ContainerConfigError(
        f"couldn't find key {reference.key} in {kind} {pod.metadata.namespace}/{reference.name}"
    )
