"""Runs the suite's program: lists its specs, and runs some of them against a cluster."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.e2e import reports
from tools.e2e.reports import Result

REPORT: Final = "report.json"
LOG: Final = "e2e.log"
LIMIT: Final = "6h"


@dataclass(frozen=True)
class Suite:
    """An `e2e.test` as `go test -c` makes it."""

    binary: Path

    def names(self) -> list[str]:
        """Return the full names of all specs."""
        with tempfile.TemporaryDirectory(prefix="dray-e2e-") as folder:
            report = Path(folder) / REPORT
            self._run(report, Path(folder) / LOG, "--ginkgo.dry-run")
            return list(reports.read(report))

    def run(self, names: Sequence[str], kubeconfig: Path, folder: Path) -> dict[str, Result]:
        """Run specs one after the other, and return their outcomes by name."""
        focus = [f"--ginkgo.focus={re.escape(name)}$" for name in names]
        report = folder / REPORT
        self._run(
            report,
            folder / LOG,
            *focus,
            f"--kubeconfig={kubeconfig}",
            "--provider=skeleton",
            "--disable-log-dump",
            f"--ginkgo.timeout={LIMIT}",
            "--ginkgo.v",
        )
        return reports.of_names(names, reports.read(report) if report.exists() else {})

    def _run(self, report: Path, log: Path, *arguments: str) -> None:
        command = [str(self.binary), "--ginkgo.no-color", f"--ginkgo.json-report={report}"]
        with log.open("wb") as output:
            subprocess.run(
                [*command, *arguments], stdout=output, stderr=subprocess.STDOUT, check=False
            )
