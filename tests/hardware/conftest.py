"""A real GPU for the tests, given back as it was found whatever happens."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.drivers.nvidia import nvml
from dray.drivers.nvidia.hardware import Gpu, GpuUnavailable, HardwareError
from dray.drivers.nvidia.nvml import Nvml
from tests.cluster import world

PATIENT_SECONDS = 60.0
"""Programs that load CUDA's libraries for the first time take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.hardware)


@pytest.fixture(scope="session")
def library() -> Nvml:
    try:
        found = nvml.open_library()
    except GpuUnavailable as error:
        pytest.skip(f"there is no GPU here: {error}")
    if not found.gpus():
        pytest.skip("there is no GPU here")
    return found


@pytest.fixture
def gpu(library: Nvml, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """The first GPU; when the test ends, it has the MIG mode and the partitions it had before."""
    monkeypatch.setattr(world, "DEADLINE_SECONDS", PATIENT_SECONDS)
    chosen = library.gpus()[0]
    with as_found(library, chosen):
        yield chosen


@contextlib.contextmanager
def as_found(library: Nvml, gpu: Gpu) -> Iterator[None]:
    if not gpu.can_partition:
        yield
        return
    mode = library.is_partitioned(gpu.uuid)
    before = {instance.id for instance in library.instances(gpu.uuid)}
    try:
        yield
    finally:
        for instance in library.instances(gpu.uuid):
            if instance.id not in before:
                print(f"left behind and removed: {instance}")
                with contextlib.suppress(HardwareError):
                    library.destroy_instance(gpu.uuid, instance.id)
        if library.is_partitioned(gpu.uuid) != mode:
            print(f"left behind: MIG mode {not mode}")
            library.set_partitioned(gpu.uuid, mode)


@pytest.fixture(scope="session")
def report() -> Iterator[list[str]]:
    """Lines with what was measured: printed, and kept in a file where $OUT names a folder."""
    lines: list[str] = []
    yield lines
    text = "\n".join(lines) + "\n"
    print("\n" + text)
    folder = os.environ.get("OUT")
    if folder:
        (Path(folder) / "measured.txt").write_text(text, "utf-8")
