"""The interpreter that starts containers is a file of the host: a container must not reach it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from dray.node.runtimes import sandbox
from tests.security import ordinary_user

pytestmark = pytest.mark.skipif(not sandbox.is_usable(), reason="containers cannot be run here")

CHANGE = (
    "import os; f = os.open('/proc/self/exe', os.O_RDONLY)\n"
    "try:\n os.fchmod(f, 0o700); print('changed', flush=True)\n"
    "except OSError as e:\n print(e, flush=True)\n"
    "print(os.readlink('/proc/self/exe'))"
)
STORY = """
import asyncio, sys
from pathlib import Path
from dray.node.runtimes.interface import ContainerSpec
from tests.security.containers import ENV, FOREVER, executed, with_pod

async def story(pod):
    argv = ("/proc/self/exe", "-I", "-S", "-c", sys.argv[2])
    print(await pod.ran("a", ContainerSpec(argv, env=ENV)))
    print(await executed(await pod.start("b", FOREVER), *argv))

with_pod(Path(sys.argv[1]), story)
"""


def test_a_container_cannot_change_an_interpreter_of_its_own_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to run as an ordinary user")
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, ordinary_user.USER, ordinary_user.USER)
        python = Path(home) / "python3"
        shutil.copyfile(ordinary_user.open_python(), python)
        python.chmod(0o755)
        os.chown(python, ordinary_user.USER, ordinary_user.USER)
        packages = ordinary_user.open_packages()
        ran = subprocess.run(
            [str(python), "-c", STORY, home, CHANGE],
            cwd=home,
            env={
                "HOME": home,
                "TMPDIR": home,
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.pathsep.join(
                    [str(ordinary_user.ROOT / "src"), str(ordinary_user.ROOT), *packages]
                ),
            },
            user=ordinary_user.USER,
            group=ordinary_user.USER,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert stat.S_IMODE(python.stat().st_mode) == 0o755, ran.stdout
        assert str(python) not in ran.stdout
        assert ran.stdout.count("memfd") == 2, ran.stdout
