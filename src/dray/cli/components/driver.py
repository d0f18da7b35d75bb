"""`dray driver`: a driver as a process of its own, on a node of any cluster."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dray import telemetry
from dray.cli.command_errors import CommandError, DrayCommand
from dray.cli.components import foreground, metrics_endpoint
from dray.cli.driver_project.command import new
from dray.cli.session.connection import Target
from dray.driverkit.plugin import Directories
from dray.drivers.nvidia import devices
from dray.drivers.nvidia import driver as drivers
from dray.drivers.nvidia.driver import NvidiaDriver, Options
from dray.drivers.nvidia.hardware import GpuUnavailable, HardwareError
from dray.drivers.nvidia.health import QUIET_SECONDS
from dray.drivers.nvidia.inventory import Settings
from dray.drivers.nvidia.runner import Running

PLACES = Directories()


def folder(name: str, default: Path, meaning: str) -> Callable[[Callable[..., None]], Any]:
    kind = click.Path(path_type=Path)
    return click.option(
        name, type=kind, default=default, show_default=True, metavar="DIR", help=meaning
    )


@click.group("driver")
def driver() -> None:
    """Run a driver on this node, or make a project for a new one."""


driver.add_command(new)


@driver.command("nvidia", cls=DrayCommand)
@click.option("--kubeconfig", default="", metavar="FILE", help="Instead of $KUBECONFIG.")
@click.option("--node", envvar="NODE_NAME", default=platform.node, help="This node's name.")
@folder("--registry", PLACES.registry, "Where the kubelet looks for drivers.")
@folder("--plugins", PLACES.plugins, "Where drivers store their state.")
@folder("--cdi", PLACES.cdi, "Where container runtimes look for devices.")
@folder("--root", Path("/"), "Where the files of the machine are mounted.")
@click.option(
    "--dynamic-mig/--static-mig",
    default=True,
    show_default=True,
    help="Create MIG partitions for claims, or publish the existing ones.",
)
@click.option("--share-memory", is_flag=True, help="Let claims request a part of a GPU's memory.")
@click.option("--skip-xids", default="", metavar="N,N", help="XIDs to ignore.")
@click.option(
    "--heal-after",
    type=float,
    default=QUIET_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time without another fault until a GPU is healthy again.",
)
@metrics_endpoint.option
def nvidia(
    kubeconfig: str,
    node: str,
    registry: Path,
    plugins: Path,
    cdi: Path,
    root: Path,
    dynamic_mig: bool,
    share_memory: bool,
    skip_xids: str,
    heal_after: float,
    metrics_listen: str,
) -> None:
    """Publish the NVIDIA GPUs of this node: whole, as MIG partitions on demand, or shared."""
    places = Directories(registry, plugins, cdi)
    options = Options(Settings(node, dynamic_mig, share_memory), _numbers(skip_xids), heal_after)
    hardware = _find(plugins / devices.DRIVER, options, root)

    async def work() -> None:
        registry = telemetry.Registry()
        async with foreground.client_of(Target(kubeconfig), hardware.name) as client:
            instance = os.environ.get("POD_UID", "")
            here = Running(
                hardware, client, node, directories=places, instance=instance, registry=registry
            )
            async with metrics_endpoint.shown(
                metrics_listen, registry, lambda: here.plugin.is_published
            ):
                await here.run()

    foreground.run(foreground.until_signalled(work))


def _find(folder: Path, options: Options, root: Path) -> NvidiaDriver:
    try:
        return drivers.find(folder, options, root)
    except GpuUnavailable as error:
        raise CommandError(
            f"no NVIDIA GPU was found: {error}.",
            "Is the NVIDIA driver installed? `nvidia-smi` should list the GPUs.",
        ) from error
    except HardwareError as error:
        raise CommandError(f"the GPUs cannot be read: {error}.") from error
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}.") from error


def _numbers(text: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if not part.isdigit()), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong} is not a number", param_hint="--skip-xids")
    return frozenset(map(int, parts))
