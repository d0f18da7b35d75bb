"""A driver whose processes all use the same sockets: two of them cannot run at once."""

from __future__ import annotations

import os
import sys

from dray import driverkit
from tests.conformance_drivers.faulty import Sound

if __name__ == "__main__":
    os.environ.pop("POD_UID", None)
    driverkit.main(Sound(), sys.argv[1:])
