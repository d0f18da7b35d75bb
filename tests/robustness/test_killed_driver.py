"""kill -9 of a driver at every step of prepare and unprepare: nothing double, nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_driver_killed_at_any_step_goes_on_where_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.robustness.killed_driver", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each for each in found if each["faults"]] == []
    kills = Counter(each["during"] for each in found)
    assert kills["prepare"] > 15
    assert kills["unprepare"] > 8
