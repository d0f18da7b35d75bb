"""The environment, command and arguments of a container, with every reference filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dray.api.types.containers import Container, EnvFromSource, EnvVar
from dray.api.types.pods import Pod
from dray.client.api_client import Client
from dray.node.pods import value_sources
from dray.node.runtimes.interface import ContainerConfigError

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


async def build(client: Client, pod: Pod, container: Container) -> dict[str, str]:
    """Return the environment of a container. Later entries win, and may refer to earlier ones."""
    made: dict[str, str] = {}
    for source in container.env_from:
        made.update(await _from_all(client, pod, source))
    for variable in container.env:
        value = await _value(client, pod, container, variable, made)
        if value is not None:
            made[variable.name] = value
    return made


def command(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(part, env) for part in container.command)


def arguments(container: Container, env: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(expand(part, env) for part in container.args)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by a dollar; unknown names stay as they are."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


async def _from_all(client: Client, pod: Pod, source: EnvFromSource) -> dict[str, str]:
    chosen = source.config_map_ref or source.secret_ref
    found = await value_sources.values(client, pod.metadata.namespace, chosen) if chosen else {}
    return {source.prefix + key: value.decode("utf-8", "replace") for key, value in found.items()}


async def _value(
    client: Client, pod: Pod, container: Container, variable: EnvVar, env: Mapping[str, str]
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
            f"environment variable {variable.name}: no source that is supported"
        )
    namespace = pod.metadata.namespace
    found = await value_sources.values(client, namespace, reference)
    if reference.key in found:
        return found[reference.key].decode("utf-8", "replace")
    if reference.optional:
        return None
    kind = "ConfigMap" if source.config_map_key_ref else "Secret"
    raise ContainerConfigError(
        f"couldn't find key {reference.key} in {kind} {namespace}/{reference.name}"
    )
