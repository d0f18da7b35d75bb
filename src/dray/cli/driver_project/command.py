"""`dray driver new`: makes a project for a new driver."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from pathlib import Path

import click

from dray.cli.command_errors import DrayCommand
from dray.cli.driver_project.project import DriverProject


@click.command("new", cls=DrayCommand)
@click.argument("name")
@click.option("--partitions", is_flag=True, help="Devices can be divided into partitions.")
@click.option("--shared", is_flag=True, help="Claims can request a part of a device's memory.")
@click.option(
    "--domain",
    default="example.com",
    show_default=True,
    help="A domain that you own; the driver is NAME.DOMAIN.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to make it; it must not exist. NAME-driver by default.",
)
def new(name: str, partitions: bool, shared: bool, domain: str, directory: Path | None) -> None:
    """Make a driver project: a package, tests, manifests, a Helm chart and a README.

    Its devices are imaginary; its tests pass. Replace what finds and prepares them by your own.
    """
    project = DriverProject(name, domain, partitions, shared)
    project.check()
    place = directory or Path(project.name)
    project.write(place)
    click.echo(f"Created {place}, the driver {project.driver}. Test it:")
    click.echo(f"  cd {place}")
    click.echo(f"  {_install()} -e '.[test]'")
    click.echo("  pytest")


def _install() -> str:
    """Return how to install into the environment of this process; those of uv have no pip."""
    if importlib.util.find_spec("pip") is not None:
        return "pip install"
    # `make dev` puts uv there if it is not on PATH.
    own = Path(sys.prefix).parent / ".tools" / "bin" / "uv"
    uv = str(own) if shutil.which("uv") is None and own.exists() else "uv"
    return f"{shlex.quote(uv)} pip install --python {shlex.quote(sys.executable)}"
