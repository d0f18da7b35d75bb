"""Which tests did not run, and what would enable them: the one list of reasons to skip.

A test that is skipped for another reason fails the run: the reader must learn from each skip what
to install. With `CI=true`, only those groups may be skipped that the machine of CI cannot have.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pytest

WIDTH: Final = 100
PART: Final = "not run"
"""The property of a test that has left something out; its value is the reason."""


@dataclass(frozen=True)
class Group:
    """Tests that need the same thing."""

    name: str
    reasons: str
    """A pattern for the reasons with which they are skipped."""
    remedy: str
    """What enables them; empty where nothing is missing."""
    is_optional: bool = False
    """Whether CI may go without."""


GROUPS: Final = (
    Group(
        "containers in sandboxes",
        r"containers cannot be run here",
        "allow user namespaces",
    ),
    Group(
        "podman",
        r"podman cannot be tried",
        "install podman, runc and busybox-static",
        is_optional=True,
    ),
    Group(
        "networks of pods",
        r"no programs for the network of pods|no /dev/net/tun",
        "install passt, slirp4netns and iproute2, and load the module tun",
        is_optional=True,
    ),
    Group("etcd", r"no etcd on PATH", "install etcd-server"),
    Group("Helm", r"no helm on PATH", "install helm 3; `make dev` does, on x86-64"),
    Group(
        "a real API server",
        r"no kube-apiserver on PATH",
        "put kube-apiserver 1.34 or newer on PATH",
        is_optional=True,
    ),
    Group(
        "kubectl",
        r"no recent kubectl|kubectl is not on PATH",
        "put kubectl 1.34 or newer on PATH",
        is_optional=True,
    ),
    Group(
        "Kubernetes' own tables",
        r"is not part of the repository|is absent$|no transcripts|no recorded cases",
        "set DRAY_CASES, DRAY_GOLDEN, DRAY_SEEDS and DRAY_TRACES to where they are",
        is_optional=True,
    ),
    Group("pre-commit", r"no pre-commit on PATH", "install pre-commit"),
    Group("a browser", r"no Chromium on PATH", "install chromium"),
    Group("TypeScript", r"no tsc", "run npm ci --prefix tests/browser/typescript"),
    Group("Prometheus", r"no Prometheus on PATH", "install prometheus"),
    Group("an example's tools", r"is not installed$", "install gcc, libc6-dev and util-linux"),
    Group(
        "root",
        r"needs root|only root|cannot be mounted here|no device nodes here",
        "run as root where file systems can be mounted",
    ),
    Group(
        "package index",
        r"no package index can be reached",
        "let uv reach PyPI",
        is_optional=True,
    ),
    Group("GPU", r"there is no GPU here", "a machine with an NVIDIA GPU", is_optional=True),
    Group(
        "nothing to test",
        r"JSON cannot carry what|there is a GPU here|is not made for this machine",
        "",
        is_optional=True,
    ),
)


def group_of(reason: str) -> Group | None:
    """The group to which a reason belongs."""
    return next((group for group in GROUPS if re.search(group.reasons, reason)), None)


class Summary:
    """Tells at the end what did not run, and fails the run where a skip is not allowed."""

    def __init__(self, *, is_strict: bool) -> None:
        self._is_strict = is_strict
        self._whole: Counter[str] = Counter()
        self._parts: Counter[str] = Counter()
        self.refused: list[str] = []
        """Skipped tests that should have run, with their reasons."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._note(report.nodeid, report.longrepr[2], self._whole)
        if report.when == "teardown":
            for name, reason in report.user_properties:
                if name == PART:
                    self._note(report.nodeid, str(reason), self._parts)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._note(report.nodeid, report.longrepr[2], self._whole)

    def _note(self, test: str, reason: str, counts: Counter[str]) -> None:
        reason = reason.removeprefix("Skipped: ")
        group = group_of(reason)
        if group is None or (self._is_strict and not group.is_optional):
            self.refused.append(f"{test}: {reason}")
        if group is not None and group.remedy:
            counts[group.name] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.refused:
            terminalreporter.section("skipped without an allowed reason (tests/unrun.py)", red=True)
            for line in self.refused:
                terminalreporter.write_line(line)
        if text := self.text():
            terminalreporter.write_line(textwrap.fill(text, WIDTH))

    def text(self) -> str:
        """The paragraph; empty where everything ran."""
        groups = [self._told(group) for group in GROUPS if self._missed(group.name)]
        return f"Not run here: {', '.join(groups)}." if groups else ""

    def _missed(self, name: str) -> int:
        return self._whole[name] + self._parts[name]

    def _told(self, group: Group) -> str:
        whole, parts = self._whole[group.name], self._parts[group.name]
        amounts = [f"{whole} test{'s' * (whole != 1)}"] if whole else []
        amounts += [f"parts of {parts}"] if parts else []
        return f"{group.name} ({' and '.join(amounts)}; {group.remedy})"


def install(config: pytest.Config) -> None:
    """Summarise in the process that reports; workers of xdist only run tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(is_strict=os.environ.get("CI") == "true"))
