"""A small cluster in a process of its own, and the time that commands on it take."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from dray import own_process

COMMAND = own_process.command()

Say = Callable[[str], None]


class Taken(NamedTuple):
    """The time of one run: elapsed seconds, and seconds of CPU time."""

    seconds: float
    cpu_seconds: float


@contextlib.contextmanager
def running_cluster(directory: Path, fleet: str, nodes: int) -> Iterator[None]:
    """Run a cluster with simulated nodes while the block runs, after it is ready."""
    options = ["--fleet", fleet, "--nodes", str(nodes), "--runtime", "none", "--store", "memory"]
    where = ["--data", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*COMMAND, "up", *options, *where], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if not process.stdout.readline():
                raise RuntimeError(f"the cluster ended with exit code {process.wait()}")
            yield
        finally:
            process.terminate()


def run_once(command: Sequence[str], directory: Path, exit_code: int = 0) -> Taken:
    """Run a command on the cluster in `directory`. Raises RuntimeError for another exit code."""
    environment = {**os.environ, "KUBECONFIG": str(directory / "kubeconfig")}
    environment["KUBECACHEDIR"] = str(directory / "kubectl")
    # Installed packages have compiled modules; a run that may not write them would compile each.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began, cpu = time.perf_counter(), _cpu_of_children()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    taken = Taken(time.perf_counter() - began, _cpu_of_children() - cpu)
    if done.returncode != exit_code:
        shown = " ".join(word for word in command if word not in COMMAND)
        raise RuntimeError(f"{shown}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return taken


def _cpu_of_children() -> float:
    """Return the CPU time of child processes that have ended; the cluster has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
