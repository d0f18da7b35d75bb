"""Programs that containers run on a GPU, and what they need of the machine's Python."""

from __future__ import annotations

import os
import sys
from typing import Any

FIRST_CALL = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)

call("cuInit", 0)
called = time.time()
count, device = ctypes.c_int(), ctypes.c_int()
context, memory = ctypes.c_void_p(), ctypes.c_void_p()
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
print("first-call", called, time.time(), count.value, flush=True)
"""
"""Prints when CUDA first answered, when it gave memory, and how many devices it sees."""

ALLOCATE = (
    FIRST_CALL
    + """
for size in (4, 40):
    code = cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size << 30))
    print("allocated", size, "GiB", code, flush=True)
"""
)
"""Prints whether there is memory for 4 and then for 40 GiB more: 0 for yes, 2 for no."""

COMPUTE = """
import torch
ones = torch.ones(512, 512, device="cuda", dtype=torch.float64)
print("sum", int((ones @ ones).sum().item()), torch.cuda.device_count(), flush=True)
print("memory", torch.cuda.get_device_properties(0).total_memory, flush=True)
"""
SUM = 512**3


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def needs() -> dict[str, Any]:
    """Volumes that show a container the Python of this process, where /usr does not have it."""
    prefixes = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))}
    paths = sorted(path for path in prefixes if not path.startswith("/usr"))
    outer = [path for path in paths if not any(_is_inside(path, other) for other in paths)]
    volumes = [
        {"name": f"python-{number}", "hostPath": {"path": path}}
        for number, path in enumerate(outer)
    ]
    mounts = [
        {"name": f"python-{number}", "mountPath": path, "readOnly": True}
        for number, path in enumerate(outer)
    ]
    return {"volumes": volumes, "container": {"volumeMounts": mounts}}


def _is_inside(path: str, other: str) -> bool:
    return path != other and path.startswith(other.rstrip("/") + "/")
