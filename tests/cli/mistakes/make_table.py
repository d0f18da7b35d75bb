"""Writes the table of mistakes: python -m tests.cli.mistakes.make_table."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.cli.mistakes import scoring, table


def main() -> None:
    """Score every mistake on clusters, and write the table."""
    lines = []
    with scoring.clusters() as cluster_of, tempfile.TemporaryDirectory() as directory:
        for mistake in table.ALL:
            found = scoring.scores(mistake, cluster_of(mistake.fleet), Path(directory))
            lines.append(table.row(mistake, found))
    table.PAGE.write_text(table.HEAD + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
