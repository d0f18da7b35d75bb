"""The guided tour: a user's first minutes with dray. Exits non-zero on unexpected output."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from importlib import resources
from pathlib import Path
from typing import Final

import click

from dray.cli.demo.terminal import Terminal, UnexpectedOutput

RUNTIME: Final = "dray get nodes -o jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}"
IN_NAME_ONLY: Final = "none:"
UUIDS: Final = (
    "dray get resourceslices -o "
    "jsonpath='{range .items[*].spec.devices[*]}{.attributes.uuid.string} {end}'"
)


@click.command()
def demo() -> None:
    """Run a guided demo on a simulated fleet."""
    started = time.perf_counter()
    # Paths of sockets must be short, which the temporary folders of some systems are not.
    with tempfile.TemporaryDirectory(prefix="dray-demo-", dir=_short_folder()) as name:
        folder = Path(name)
        _copy_manifests(folder)
        _tour(Terminal(folder))
    click.secho(f"\nThe demo has passed, in {time.perf_counter() - started:.0f} s.", bold=True)
    click.echo("Start your own cluster: dray up. More is in the examples and docs of dray.")


def _short_folder() -> str | None:
    return "/tmp" if Path("/tmp").is_dir() else None


def _copy_manifests(folder: Path) -> None:
    with resources.as_file(resources.files(__package__).joinpath("manifests")) as source:
        shutil.copytree(source, folder, dirs_exist_ok=True)


def _tour(screen: Terminal) -> None:
    screen.headline(
        "A whole cluster in one command",
        "API server, scheduler, controllers and nodes with simulated GPUs. No docker, no root.",
    )
    up = "dray up --fleet fleet.yaml --data data --listen 127.0.0.1:0"
    with screen.running(up) as cluster:
        screen.show(cluster, "dray is up", lines=2)
        screen.run_until("dray get nodes", "shared-0")
        runs_containers = not screen.run(RUNTIME, quiet=True).startswith(IN_NAME_ONLY)
        _one_gpu(screen, runs_containers)
        _impossible(screen)
        _partitions(screen, runs_containers)
        _shares(screen)
        _mistake(screen)
        _clean_up(screen)


def _one_gpu(screen: Terminal, runs_containers: bool) -> None:
    screen.headline(
        "A pod requests one GPU with at least 40Gi",
        "The template has the requirements of each pod, in CEL. The pod gets its own claim.",
    )
    screen.show_file("one-gpu.yaml")
    watchers = _watchers(screen)
    with screen.running("dray get resourceclaims --watch") as watch:
        screen.until(lambda: _watchers(screen) > watchers, "the claims being watched")
        screen.run("dray apply -f one-gpu.yaml")
        screen.say("The other terminal, meanwhile:")
        screen.show(watch, "allocated,reserved")
    screen.run("dray wait --for=condition=Ready pod/train", expect="condition met")
    if not runs_containers:
        screen.say("Containers are simulated here: this system allows no user namespaces.")
        return
    screen.say("The container sees the GPU of its claim and no other:")
    listed = screen.run_until("dray logs train", "UUID: ")
    seen = re.findall(r"UUID: ([^)]*)", listed)
    if len(seen) != 1 or seen[0] not in screen.run(UUIDS, quiet=True).split():
        raise UnexpectedOutput(f"the container should see one published GPU: {listed}")


def _watchers(screen: Terminal) -> int:
    """Return the number of watches on claims, to know that a watch has started."""
    metrics = screen.run("dray get --raw /metrics", quiet=True)
    found = re.search(r'^apiserver_longrunning.*resource="resourceclaims".* (\d+)', metrics, re.M)
    return int(found[1]) if found else 0


def _impossible(screen: Terminal) -> None:
    screen.headline(
        "Another pod requests more than any device has",
        "The server warns that no device matches; dray explain shows why, and what would fit.",
    )
    screen.run("dray apply -f dream.yaml", expect="matches 0 of")
    screen.run_until("dray explain pod/dream", "fix: ")


def _partitions(screen: Terminal, runs_containers: bool) -> None:
    screen.headline(
        "Two pods share an A100 by its MIG partitions",
        "Partitions never overlap, and the whole GPU is not allocated while a part is in use.",
    )
    screen.run("dray apply -f halves.yaml")
    screen.run("dray wait --for=condition=Ready pod/left pod/right", expect="pod/right")
    if runs_containers:
        screen.run_until("dray logs left", "MIG 3g.40gb")
        screen.run_until("dray logs right", "MIG 3g.40gb")
    else:
        screen.run("dray explain pod/left pod/right", expect="mig-3g40gb-9-4")


def _shares(screen: Terminal) -> None:
    screen.headline(
        "Two pods share a GPU by its memory",
        "One device of 20Gi, two claims with 10Gi each.",
    )
    screen.run("dray apply -f shares.yaml")
    screen.run("dray wait --for=condition=Ready pod/blue pod/green", expect="pod/green")
    results = "{range .items[*].status.allocation.devices.results[?(@.shareID)]}"
    fields = '{.pool}/{.device} {.consumedCapacity.memory}{"\\n"}{end}'
    printed = screen.run(f"dray get resourceclaims -o jsonpath='{results}{fields}'", expect="10Gi")
    if printed.split() != ["shared-0/gpu-0", "10Gi"] * 2:
        raise UnexpectedOutput(f"two shares of one GPU should have been given: {printed}")


def _mistake(screen: Terminal) -> None:
    screen.headline(
        "A mistake is rejected",
        "The server responds as Kubernetes does; dray lint suggests the fix.",
    )
    screen.run("dray apply -f mistake.yaml", expect="found no matching overload")
    screen.run("dray lint mistake.yaml", expect="Did you mean")


def _clean_up(screen: Terminal) -> None:
    screen.headline("Clean up")
    files = ("one-gpu", "dream", "halves", "shares")
    screen.run("dray delete " + " ".join(f"-f {name}.yaml" for name in files))
    screen.run_until("dray get pods,resourceclaims", "No resources found")
