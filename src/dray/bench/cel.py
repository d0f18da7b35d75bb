"""`dray bench cel`: one selector on many devices, by generated code, per shape, and in C++.

All are measured in one run and interleaved, so that their ratios are valid on a busy machine. The
C++ engine has no quantities: it gets the selector's two functions, written in Python, as its
interface requires, and also a selector on plain integers, which is less work. Its devices are
prepared before the clock starts, as far as it can prepare them; so are those of the others.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dray.api.formats import quantity
from dray.api.types import dra
from dray.cel import device

DRIVER = "gpu.nvidia.com"
SELECTOR = (
    f'device.attributes["{DRIVER}"]["productName"] == "NVIDIA B200" && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("180Gi")) >= 0'
)
ENGINE = "cel-expr-python"
PLAIN_SELECTOR = (
    f'device.attributes["{DRIVER}"]["productName"] == "NVIDIA B200" && '
    f'device.capacity["{DRIVER}"].memory >= {180 * 2**30}'
)
MODELS = (
    ("NVIDIA B200", 183359),
    ("NVIDIA H200", 143771),
    ("NVIDIA B200", 184320),
    ("NVIDIA A100-SXM4-80GB", 81920),
)
ROUNDS = 7


class MethodTime(msgspec.Struct, frozen=True):
    """The time of one method, and its ratio to generated code."""

    name: str
    microseconds: float
    ratio: float


class Report(msgspec.Struct, frozen=True):
    selector: str
    devices: int
    matched: int
    code_form: str
    compile_microseconds: float
    measurements: tuple[MethodTime, ...]


def make_devices(count: int) -> list[dra.Device]:
    """Return devices with four shapes; they differ in attributes that the selector ignores."""
    return [
        dra.Device(
            name=f"gpu-{number}",
            attributes={
                "productName": dra.DeviceAttribute(string_value=MODELS[number % 4][0]),
                "uuid": dra.DeviceAttribute(string_value=f"GPU-{number:032x}"),
                "index": dra.DeviceAttribute(int_value=number),
                "driverVersion": dra.DeviceAttribute(version_value="580.95.5"),
            },
            capacity={"memory": dra.DeviceCapacity(value=f"{MODELS[number % 4][1]}Mi")},
        )
        for number in range(count)
    ]


def run(count: int = 10_000) -> Report:
    devices = make_devices(count)
    views = [device.view(DRIVER, item) for item in devices]
    started = time.perf_counter()
    selector = device.compile_selector(SELECTOR, stored=True)
    compile_seconds = time.perf_counter() - started
    evaluate, fields = selector.program.evaluate, [view.fields for view in views]
    ways: dict[str, Callable[[], int]] = {
        "generated code": lambda: sum(map(evaluate, fields)),
        "remembered per shape": _per_shape(selector, views),
    }
    ways |= _engine(count)
    answers = {way() for way in ways.values()}
    assert len(answers) == 1, f"the ways disagree: {answers}"
    seconds = _measure(list(ways.values()))
    times = tuple(
        MethodTime(name, taken / count * 1e6, taken / seconds[0])
        for name, taken in zip(ways, seconds, strict=True)
    )
    microseconds = compile_seconds * 1e6
    return Report(SELECTOR, count, answers.pop(), selector.code_form, microseconds, times)


def _measure(ways: Sequence[Callable[[], int]]) -> list[float]:
    """Return the median of several rounds of each method, taken in turn."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for number, way in enumerate(ways):
            started = time.perf_counter()
            way()
            taken[number].append(time.perf_counter() - started)
    return [statistics.median(times) for times in taken]


def _per_shape(selector: device.Selector, views: Sequence[device.DeviceView]) -> Callable[[], int]:
    """Evaluate once per shape. Shapes are computed when a device is published, so not here."""
    shapes = [selector.shape(view) for view in views]
    first_of = dict(zip(reversed(shapes), reversed(views), strict=True))
    numbers = {shape: number for number, shape in enumerate(first_of)}
    numbered = [numbers[shape] for shape in shapes]

    def ask() -> int:
        answers = [selector.matches(view) for view in first_of.values()]
        return sum(map(answers.__getitem__, numbered))

    return ask


def _engine(count: int) -> dict[str, Callable[[], int]]:
    """Return the C++ engine's methods on the same devices; empty if it is not installed."""
    try:
        from cel_expr_python import cel
    except ImportError:
        return {}
    environment = cel.NewEnv(
        variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)},
        functions=_quantity_functions(cel),
    )
    activations = [environment.Activation(data={"device": item}) for item in _plain_devices(count)]

    def way(text: str) -> Callable[[], int]:
        evaluate = environment.compile(text).eval
        return lambda: sum(evaluate(activation=item).value() for item in activations)

    return {ENGINE: way(SELECTOR), f"{ENGINE}, integers": way(PLAIN_SELECTOR)}


def _quantity_functions(cel: Any) -> list[Any]:
    """Return quantities as whole numbers, the minimum for the selector to run there."""

    def parse(text: str) -> int:
        return quantity.parse(text).value()

    def compare(left: int, right: int) -> int:
        return (left > right) - (left < right)

    number, text = cel.Type.INT, cel.Type.STRING
    parsing = cel.Overload("quantity", number, [text], False, parse)
    comparing = cel.Overload("compareTo", number, [number, number], True, compare)
    return [cel.FunctionDecl("quantity", [parsing]), cel.FunctionDecl("compareTo", [comparing])]


def _plain_devices(count: int) -> list[dict[str, Any]]:
    devices = []
    for number, (model, mebibytes) in zip(range(count), itertools.cycle(MODELS)):
        attributes = {"productName": model, "uuid": f"GPU-{number:032x}", "index": number}
        capacity = {"memory": mebibytes * 2**20}
        device = {"attributes": {DRIVER: attributes}, "capacity": {DRIVER: capacity}}
        devices.append({"driver": DRIVER, **device})
    return devices
