"""`dray demo`: what there is so far, on a sample fleet. Exits non-zero on any surprise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from dray.api import slices
from dray.cel import device, values

DRIVER = "gpu.nvidia.com"


class Model(NamedTuple):
    product: str
    memory: str
    compute_capability: str
    amount: int


FLEET = (
    Model("NVIDIA B200", "183359Mi", "10.0.0", 8),
    Model("NVIDIA H200", "143771Mi", "9.0.0", 8),
    Model("NVIDIA A100-SXM4-80GB", "81920Mi", "8.0.0", 16),
    Model("NVIDIA L4", "23034Mi", "8.9.0", 4),
)


class Example(NamedTuple):
    """A selector, and how many devices of the fleet it should match; None if it is an error."""

    title: str
    expression: str
    expected: int | None


EXAMPLES = (
    Example(
        "at least 40Gi",
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
        32,
    ),
    Example(
        "a B200 with 178Gi",
        f'device.attributes["{DRIVER}"].productName == "NVIDIA B200" && '
        f'device.capacity["{DRIVER}"].memory.compareTo(quantity("178Gi")) >= 0',
        8,
    ),
    Example(
        "Hopper or newer",
        f'device.attributes["{DRIVER}"].cudaComputeCapability.isGreaterThan(semver("8.9.9"))',
        16,
    ),
    Example(
        "an attribute that may be missing",
        f'device.attributes["{DRIVER}"].?nvswitchDomain.orValue("none") == "none"',
        36,
    ),
    Example(
        "a typo in an attribute",
        f'device.attributes["{DRIVER}"].productname == "NVIDIA B200"',
        None,
    ),
    Example("a quantity against a string", f'device.capacity["{DRIVER}"].memory >= "40Gi"', None),
)


@click.command()
def demo() -> None:
    """Match selectors against a sample fleet, as Kubernetes 1.37 would."""
    fleet = list(_fleet())
    click.echo(f"A fleet of {len(fleet)} GPUs:")
    for model in FLEET:
        click.echo(f"  {model.amount:3} × {model.product:<24}{model.memory}")
    surprises = 0
    for example in EXAMPLES:
        click.secho(f"\n{example.title}", bold=True)
        click.echo(f"  {example.expression}")
        surprises += not _show(example, fleet)
    if surprises:
        raise click.ClickException(f"{surprises} of the answers are not what they should be")
    click.echo("\nEvery answer is what it should be.")


def _fleet() -> Iterator[device.DeviceView]:
    for model in FLEET:
        for number in range(model.amount):
            attributes = {
                "productName": slices.DeviceAttribute(string_value=model.product),
                "cudaComputeCapability": slices.DeviceAttribute(
                    version_value=model.compute_capability
                ),
                "index": slices.DeviceAttribute(int_value=number),
            }
            capacity = {"memory": slices.DeviceCapacity(value=model.memory)}
            yield device.view(
                DRIVER,
                slices.Device(name=f"gpu-{number}", attributes=attributes, capacity=capacity),
            )


def _show(example: Example, fleet: list[device.DeviceView]) -> bool:
    """Print what the selector does; whether that is as expected."""
    selector = device.compile_selector(example.expression, stored=False)
    if selector.error is not None:
        click.secho(f"  refused: {selector.error.detail}".replace("\n", "\n  "), fg="yellow")
        return example.expected is None
    try:
        matched = sum(map(selector.matches, fleet))
    except values.EvaluationError as error:
        click.secho(f"  fails at run time: {error}", fg="yellow")
        return example.expected is None
    shapes = len({selector.shape(view) for view in fleet})
    click.secho(
        f"  matches {matched} of {len(fleet)}; {shapes} different devices to ask; "
        f"cost at most {selector.estimated_cost} of 1000000",
        fg="green",
    )
    return matched == example.expected
