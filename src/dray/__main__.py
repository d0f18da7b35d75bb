"""`python -m dray`: the `dray` command, for a Python whose scripts are not on the PATH."""

from __future__ import annotations

from dray.cli.main import main

if __name__ == "__main__":
    main(prog_name="dray")
