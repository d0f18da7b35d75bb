"""Runs one container in this process, to find out whether that works here.

Imports nothing but Python's own library, as the shim does.
"""

from __future__ import annotations

import os
import sys

from dray.node.containers import shim, system_calls


def main() -> None:
    """Run the command in a folder, the last argument."""
    system_calls.leave_interpreter()
    shim.own(sys.argv[-1], os.open(os.devnull, os.O_WRONLY))
