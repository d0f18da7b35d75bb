"""`dray apiserver`: the API server as a process of its own."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from pathlib import Path
from typing import NamedTuple

import click

from dray.api import features, kinds
from dray.apiserver import server, standalone
from dray.apiserver.access import bootstrap_policy
from dray.apiserver.access.certificates import Authority
from dray.apiserver.access.renewal import RenewedPair
from dray.apiserver.access.server_keys import KeyFiles, ServerKeys
from dray.apiserver.https_server import Server
from dray.apiserver.server import Settings
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.components import foreground, key_options, store_option
from dray.cli.components.store_option import StoreChoice
from dray.cli.output import durations
from dray.cli.session import up_instance
from dray.client import kubeconfig
from dray.store import compaction

DEFAULT_LISTEN = "127.0.0.1:6443"
COMPONENTS = {"scheduler": bootstrap_policy.SCHEDULER, "controllers": bootstrap_policy.CONTROLLERS}
"""Users with only the rights that a component needs."""

audit_log_option = click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append a line for every request: user, request, result.",
)
event_ttl_option = click.option(
    "--event-ttl",
    default="1h",
    show_default=True,
    callback=durations.parse,
    metavar="DURATION",
    help="How long Events are kept after they were last seen; 0 is forever.",
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _names(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a server as clients write them."""
    return tuple(_name(value, option.opts[0]) for value in values)


def _name(text: str, option: str) -> str:
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(text))
    if not _NAME.fullmatch(text.lower()):
        raise WrongUsage(f"{option} {text}: write a host name or an IP address, without a port")
    return text.lower()


names_option = click.option(
    "--tls-san",
    "names",
    multiple=True,
    callback=_names,
    metavar="NAME|IP",
    help="Another name or address of this server; it is in the certificate.",
)


@click.command("apiserver", cls=DrayCommand)
@store_option.options
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, metavar="HOST:PORT")
@click.option(
    "--data",
    default=up_instance.DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    help="Where keys, certificates and the kubeconfig are.",
)
@click.option("--feature-gates", default="", metavar="A=true,B=false", help="As in Kubernetes.")
@click.option(
    "--runtime-config",
    default="",
    metavar="GROUP/VERSION=false,…",
    help="Versions that are not served.",
)
@key_options.options
@names_option
@audit_log_option
@event_ttl_option
def apiserver(
    store: StoreChoice,
    listen: str,
    data: str,
    feature_gates: str,
    runtime_config: str,
    key_files: KeyFiles,
    names: tuple[str, ...],
    audit_log: Path | None,
    event_ttl: float,
) -> None:
    """Serve the Kubernetes API over HTTPS until stopped.

    Kubeconfigs are written to the data directory: an administrator's, and one each for `dray
    scheduler` and `dray controllers`, with only their rights. Several servers on one etcd need
    the same keys: give all of them the same files.
    """
    settings = Settings(
        features=features.parse(feature_gates),
        disabled=disabled_versions(runtime_config),
        mounts_tokens=True,
        audit_log=audit_log,
        event_seconds=event_ttl,
    )
    address = foreground.parse_listen(listen, "--listen", DEFAULT_LISTEN)
    directory = foreground.private_directory(data)
    keys = key_options.load(directory, key_files)
    foreground.run(
        foreground.until_signalled(
            lambda: _serve(directory, store, ServedAt(*address, names), settings, keys)
        )
    )


def disabled_versions(text: str) -> tuple[str, ...]:
    """Return the API versions that a runtime config turns off; all others are served."""
    disabled = []
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        group, version = kinds.parse_api_version(name)
        if version not in kinds.VERSIONS_BY_GROUP.get(group, ()):
            served = ", ".join(
                kinds.api_version(group, known_version)
                for group, known_versions in kinds.VERSIONS_BY_GROUP.items()
                for known_version in known_versions
            )
            raise WrongUsage(f"--runtime-config: {name} is not served; there are: {served}")
        if value in ("false", "0"):
            disabled.append(name)
        elif value not in ("", "true", "1"):
            raise WrongUsage(f"--runtime-config: {pair}: write {name}=true or {name}=false")
    return tuple(disabled)


class ServedAt(NamedTuple):
    """The address of a server, and more names that lead to it."""

    host: str
    port: int
    names: tuple[str, ...] = ()


async def _serve(
    directory: Path,
    store: StoreChoice,
    address: ServedAt,
    settings: Settings,
    keys: ServerKeys,
) -> None:
    advice = "Choose another address with --listen; port 0 takes any free port."
    async with contextlib.AsyncExitStack() as stack:
        state = await stack.enter_async_context(store_option.opened(store, directory))
        opened = await stack.enter_async_context(
            server.open_server(
                state, signer=keys.signer, settings=settings, identity=keys.server_identity
            )
        )
        url = await listen(stack, opened.server, keys.authority, address, advice)
        _announce(directory, url, keys)
        await compaction.compact_regularly(state)


async def listen(
    stack: contextlib.AsyncExitStack,
    api_server: Server,
    authority: Authority,
    address: ServedAt,
    advice: str,
) -> str:
    """Serve at an address until the stack closes. Returns a URL that clients can connect to."""
    host, port, more = address
    names = dict.fromkeys((host, standalone.LOOPBACK, "localhost", socket.gethostname(), *more))
    pair = RenewedPair(lambda: authority.server_pair(names))
    listening = api_server.listening(host, port, pair, authority.certificate)
    url = await foreground.listen(stack, listening, f"{host}:{port}", advice)
    for everywhere in ("//0.0.0.0:", "//[::]:"):
        url = url.replace(everywhere, f"//{standalone.LOOPBACK}:")
    return url


def _announce(directory: Path, url: str, keys: ServerKeys) -> None:
    path = directory / "kubeconfig"
    kubeconfig.write(path, keys.connection(url, "admin", standalone.ADMIN_GROUP))
    for name, user in COMPONENTS.items():
        kubeconfig.write(directory / f"{name}.kubeconfig", keys.connection(url, user))
    click.echo(f"Serving the Kubernetes API at {url}")
    click.echo(f"  export KUBECONFIG={path.resolve()}")
    click.echo("  dray get nodes")
