"""Writes docs/lint.md: how to use `dray lint`, and every rule of it.

`python -m tools.make_lint_rules`, or `make generate`. A test holds the file against the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dray.cli.lint import rules
from dray.cli.lint.rules import Rule

TARGET = Path(__file__).parents[1] / "docs" / "lint.md"
HEAD = """# Lint

`dray lint FILES` finds mistakes in manifests, with file, line and column, and prints their
corrections.

| to | use |
|---|---|
| check files and folders before they are applied | `dray lint manifests/` |
| find out whether a cluster could run them | `--against CONTEXT`, a snapshot or a fleet |
| correct the files where the meaning is clear | `--fix` |
| also change what is requested, such as fewer devices | `--fix --unsafe-fixes` |
| fail on warnings as well, for example in CI | `--strict` |
| get results for CI or a code scanner | `-o sarif`, `github`, `gitlab`, `junit`, `json` |
| also write them to files | `--report sarif=lint.sarif --report junit=lint.xml` |
| check every change in GitHub, GitLab or pre-commit | [Check manifests in CI](ci.md) |
| check for a server with other feature gates | `--feature-gates DRAConsumableCapacity=false` |
| see the rules, or one of them | `dray lint --rules`, `dray lint --rules unused-claim` |

Every correction is tried before it is printed: the finding has to be gone, and no other one may
have come. `--fix` keeps comments and layout, and a second run changes nothing. With `--against`,
pods and claims are scheduled as the scheduler would do it, in a cluster in which nothing is in use:
what only has to wait is no mistake.

`dray apply` shows the same advice below errors of the server, and warns about objects that are
valid but cannot work.

## Leave out a rule

`--ignore RULE` leaves it out everywhere. A comment leaves it out on its line, on the line below it,
or in the object below it:

```yaml
# dray-lint: ignore=unused-claim
apiVersion: v1
kind: Pod
```

## Rules

"""


def page() -> str:
    index = [
        "| rule | severity | finds |",
        "|---|---|---|",
        *(
            f"| [{rule.name}](#{rule.name}) | {rule.severity.value} | {rule.summary} |"
            for rule in rules.RULES.values()
        ),
    ]
    sections = [line for rule in rules.RULES.values() for line in _section(rule)]
    return HEAD + "\n".join([*index, "", *sections]).rstrip() + "\n"


def _section(rule: Rule) -> Iterator[str]:
    yield from (f"### {rule.name}", "", f"{rule.summary} {rule.meaning}", "", rule.remedy, "")


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
