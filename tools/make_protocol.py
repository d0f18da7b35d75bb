"""Makes src/dray/protocol/*_pb2.py and their stubs from the .proto files beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

SOURCE = Path(__file__).parents[1] / "src"


def main() -> int:
    files = sorted((SOURCE / "dray" / "protocol").glob("*.proto"))
    arguments = ["protoc", f"-I{SOURCE}", f"--python_out={SOURCE}", f"--pyi_out={SOURCE}"]
    code: int = protoc.main([*arguments, *map(str, files)])
    return code


if __name__ == "__main__":
    sys.exit(main())
