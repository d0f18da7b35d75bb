"""CSV traces of the openb format: one file with nodes, one with pods.

The format is that of https://github.com/hkust-adsl/kubernetes-scheduler-simulator/tree/main/data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.planner.policies.rooms import WHOLE, PodRequest
from dray.planner.traces.errors import TraceError

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class TraceNode(NamedTuple):
    """A node: CPU in thousandths of a core, memory in MiB, and GPUs of one model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """A pod, and when it came and left in seconds; None where the trace does not say."""

    name: str
    request: PodRequest
    arrives: int | None = None
    leaves: int | None = None


class Trace(NamedTuple):
    """Nodes and pods in the order of their files."""

    nodes: Sequence[TraceNode]
    pods: Sequence[TracePod]

    @property
    def capacity(self) -> int:
        """Return the parts of all GPUs."""
        return WHOLE * sum(node.gpus for node in self.nodes)

    def requests(self) -> Counter[PodRequest]:
        """Return the requests of the pods, with the number of pods."""
        return Counter(pod.request for pod in self.pods)


def read_nodes(text: str, file: str) -> list[TraceNode]:
    """Read a list of nodes. Raises TraceError."""
    nodes = []
    names: set[str] = set()
    for row in _rows(text, file, _NODE_COLUMNS):
        node = TraceNode(
            row.text("sn"),
            row.number("cpu_milli"),
            row.number("memory_mib"),
            row.number("gpu"),
            row.text("model", is_required=False),
        )
        if node.name in names:
            raise row.error("sn", f"a second node {node.name!r}; each needs a name of its own")
        names.add(node.name)
        nodes.append(node)
    if not any(node.gpus for node in nodes):
        raise TraceError(file, 1, 1, "no node has a GPU, so there is nothing to allocate")
    return nodes


def read_pods(text: str, file: str) -> list[TracePod]:
    """Read a list of pods. Raises TraceError."""
    pods = [_pod(row) for row in _rows(text, file, _POD_COLUMNS)]
    if not any(pod.request.gpus for pod in pods):
        raise TraceError(file, 1, 1, "no pod requests a GPU, so there is nothing to allocate")
    return pods


def _pod(row: _Row) -> TracePod:
    cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
    gpus, part = row.number("num_gpu"), row.number("gpu_milli")
    if gpus and not 1 <= part <= WHOLE:
        raise row.error("gpu_milli", f"{part} of each GPU; write 1 to {WHOLE}")
    if gpus > 1 and part < WHOLE:
        raise row.error("gpu_milli", f"{part} of each of {gpus} GPUs; only one GPU can be shared")
    models = frozenset(row.text("gpu_spec", is_required=False).split("|")) - {""}
    request = PodRequest(cpu, memory, gpus, part if gpus else 0, models if gpus else frozenset())
    arrives, leaves = row.time("creation_time"), row.time("deletion_time")
    if arrives is not None and leaves is not None and leaves < arrives:
        raise row.error("deletion_time", f"{leaves} is before creation_time, {arrives}")
    return TracePod(row.text("name"), request, arrives, leaves)


class _Row:
    """One line of a file."""

    def __init__(
        self, file: str, line: int, columns: Mapping[str, int], cells: Sequence[str]
    ) -> None:
        self._file, self._line, self._columns, self._cells = file, line, columns, cells

    def text(self, name: str, *, is_required: bool = True) -> str:
        """Return a cell."""
        index = self._columns.get(name)
        value = "" if index is None else self._cells[index].strip()
        if is_required and not value:
            raise self.error(name, f"{name} is empty")
        return value

    def number(self, name: str) -> int:
        """Return a cell with a number that is not negative."""
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and len(value) < 16):
            raise self.error(name, f"{name} is {value!r}; write a number that is not negative")
        return int(value)

    def time(self, name: str) -> int | None:
        """Return a cell with seconds; None if it is empty or absent."""
        return self.number(name) if self.text(name, is_required=False) else None

    def error(self, name: str, problem: str) -> TraceError:
        """Return an error at a cell."""
        before = self._cells[: self._columns[name]]
        return TraceError(
            self._file, self._line, sum(len(cell) + 1 for cell in before) + 1, problem
        )


def _rows(text: str, file: str, required: Sequence[str]) -> Iterator[_Row]:
    """Yield the lines behind the header. The format has no quotes: a comma ends a cell."""
    lines = text.splitlines()
    header = lines[0].lstrip("\ufeff").split(",") if lines else []
    columns = {name.strip(): index for index, name in enumerate(header)}
    for name in required:
        if name not in columns:
            problem = f"no column {name!r}; the first line must have {', '.join(required)}"
            raise TraceError(file, 1, 1, problem)
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = line.split(",")
        if len(cells) != len(header):
            problem = f"{len(cells)} cells; the first line has {len(header)}"
            raise TraceError(file, number, 1, problem)
        yield _Row(file, number, columns, cells)
