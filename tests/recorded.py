"""Finds recorded answers: those kept in `tests/corpus`, and tables that are kept elsewhere.

Each collection has an environment variable that names a folder. Files found there are read instead
of the repository's of the same names, so that the same tests can judge answers recorded elsewhere.
Where the variable is not set, what the repository lacks is looked for in `../shared`, beside it.
A file may be plain or compressed (`.gz`); its name here is always the plain one.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
BESIDE = ROOT.parent / "shared"
_GZ = ".gz"

_SHOWN_OBJECT = re.compile(r"(?<= value: )(?=\{)")


def without_shown_objects(message: str) -> str:
    """Return a validation message with `{…}` for each struct that it shows as a bad value.

    Kubernetes shows its internal Go structs, dray the objects of the API.
    """
    if start := _SHOWN_OBJECT.search(message):
        _, end = json.JSONDecoder().raw_decode(message, start.end())
        return f"{message[: start.end()]}{{…}}{without_shown_objects(message[end:])}"
    return message


@dataclass(frozen=True)
class Collection:
    """Recorded files of one kind, by their names in a folder."""

    name: str
    variable: str
    """The environment variable that names a folder to read first."""

    @property
    def folders(self) -> list[Path]:
        """Where files are looked for; the first that has one wins."""
        chosen = os.environ.get(self.variable)
        if chosen:
            return [Path(chosen).absolute(), CORPUS / self.name]
        return [CORPUS / self.name, BESIDE / self.name]

    def has(self, file: str) -> bool:
        return self._find(file) is not None

    def read(self, file: str) -> str:
        """Return the text of a file; lines end as Python's do."""
        path = self._find(file)
        if path is None:
            raise FileNotFoundError(self.why_absent(file))
        if path.suffix == _GZ:
            with gzip.open(path, "rt", encoding="utf-8") as file_of_text:
                return file_of_text.read()
        return path.read_text("utf-8")

    def json(self, file: str) -> Any:
        return json.loads(self.read(file))

    def lines(self, file: str) -> list[Any]:
        """Return what a file of JSON lines holds."""
        # Only at \n: texts inside may hold other characters that Python takes for line ends.
        return [json.loads(line) for line in self.read(file).split("\n") if line.strip()]

    def names(self, pattern: str) -> list[str]:
        """Return the names of all files that match, from every folder, sorted."""
        found = {
            path.relative_to(folder).as_posix().removesuffix(_GZ)
            for folder in self.folders
            for each in (pattern, pattern + _GZ)
            for path in folder.glob(each)
        }
        return sorted(found)

    def parents(self, pattern: str) -> list[str]:
        """Return the folders of all files that match, sorted."""
        return sorted({PurePath(name).parent.as_posix() for name in self.names(pattern)})

    def copy(self, folder: str, target: Path) -> None:
        """Write the files of one folder, plain, into a new folder."""
        target.mkdir()
        for name in self.names(f"{folder}/*"):
            (target / PurePath(name).name).write_text(self.read(name), "utf-8")

    def why_absent(self, file: str) -> str:
        """Return the reason to skip a test whose file is not here."""
        return f"{file} is not part of the repository: set {self.variable} to a folder that has it"

    def _find(self, file: str) -> Path | None:
        for folder in self.folders:
            for path in (folder / file, folder / (file + _GZ)):
                if path.is_file():
                    return path
        return None


CASES = Collection("cases", "DRAY_CASES")
"""Problems and answers, as JSON lines."""

GOLDEN = Collection("golden", "DRAY_GOLDEN")
"""Conversations with a real control plane: a folder for each."""

BENCH = Collection("bench", "DRAY_BENCH")
"""What Kubernetes' allocator answered to the scenarios of `dray bench allocate`."""

NVML = Collection("nvml", "DRAY_NVML")
"""What real GPUs say about themselves."""

TRACES = Collection("traces", "DRAY_TRACES")
"""Production traces and what a published simulator made of them; none is in the repository."""

SEEDS = Collection("seeds", "DRAY_SEEDS")
"""Texts with manifests as people paste them; none is in the repository."""
