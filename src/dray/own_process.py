"""Modules of dray in processes of their own, also where dray is not installed.

`python -m dray` finds an installed dray only. One that was started from dray.pyz is in a directory
that another Python does not search.
"""

from __future__ import annotations

import os
import sys

__all__ = ["command"]

_CODE = (
    "import os, runpy, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command(module: str = "dray") -> tuple[str, ...]:
    """Return the command that runs a module with the Python and the packages of this process."""
    return (sys.executable, "-c", _CODE, os.pathsep.join(sys.path), module)
