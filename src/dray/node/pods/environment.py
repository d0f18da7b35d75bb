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
    namespace = pod.metadata.namespace
    found: dict[str, bytes] = {}
    if (chosen := source.config_map_ref) is not None:
        optional = bool(chosen.optional)
        found = await value_sources.config_map(client, namespace, chosen.name, optional)
    elif (secret := source.secret_ref) is not None:
        found = await value_sources.secret(client, namespace, secret.name, bool(secret.optional))
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
    namespace = pod.metadata.namespace
    if (one := source.config_map_key_ref) is not None:
        found = await value_sources.config_map(client, namespace, one.name, bool(one.optional))
        return _key(found, one.key, bool(one.optional), f"ConfigMap {namespace}/{one.name}")
    if (key := source.secret_key_ref) is not None:
        found = await value_sources.secret(client, namespace, key.name, bool(key.optional))
        return _key(found, key.key, bool(key.optional), f"Secret {namespace}/{key.name}")
    raise ContainerConfigError(f"environment variable {variable.name}: no source that is supported")


def _key(values: Mapping[str, bytes], key: str, optional: bool, where: str) -> str | None:
    if key in values:
        return values[key].decode("utf-8", "replace")
    if optional:
        return None
    raise ContainerConfigError(f"couldn't find key {key} in {where}")
