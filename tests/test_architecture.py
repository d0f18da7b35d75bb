"""The rules of the tree that a tool can check."""

from __future__ import annotations

import ast
import collections
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import make_map

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src" / "dray").rglob("*.py"))


def module_id(path: Path) -> str:
    return str(path.relative_to(ROOT / "src"))


def test_imports_point_down_and_the_core_is_pure() -> None:
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_module_says_what_it_owns(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8"))), "a module starts with a docstring"


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_all_is_sorted_and_complete(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    if not exported:
        return
    names = list(exported[0])
    assert names == sorted(names)
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    missing = {name for name in defined if not name.startswith("_")} - set(names)
    assert not missing, f"public and not in __all__: {sorted(missing)}"


def test_only_the_schema_builder_knows_lightkube() -> None:
    offenders = [module_id(p) for p in MODULES if "import lightkube" in p.read_text("utf-8")]
    assert offenders == []


def test_the_map_of_modules_is_current() -> None:
    assert make_map.TARGET.read_text("utf-8") == make_map.page(), "run `make generate`"


LIGHT = [
    "dray",
    "dray.cli",
    "dray.cli.cluster_options",
    "dray.cli.kubectl_options",
    "dray.cli.lazy_group",
    "dray.cli.main",
]
"""All that `dray --help` imports of dray."""


def test_help_does_not_import_the_commands() -> None:
    code = (
        "import sys, dray.cli.main; print(sorted(m for m in sys.modules if m.startswith('dray')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == str(LIGHT)


MAX_MODULES = 15
"""More modules in one folder have rooms: a reader sees at a glance what a package has."""


def packages() -> Iterator[Path]:
    return (path.parent for path in MODULES if path.name == "__init__.py")


def test_no_folder_has_many_modules() -> None:
    sizes = {
        module_id(package): len([path for path in package.glob("*.py") if path.name[0] != "_"])
        for package in packages()
        if package.name != "protocol"
    }
    assert {name: size for name, size in sizes.items() if size > MAX_MODULES} == {}


# The API's or Python's own words, used with the name of their module.
SHARED_CLASS_NAMES = {
    "Counter",
    "Request",
    *("Device", "Event", "Kind", "Metrics", "Node", "Report", "Settings", "Type"),
    # The same kinds with a pod template that stays as JSON (`dray.controllers.slim_types`).
    *("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController"),
    "StatefulSet",
    # Of the API, and of gRPC.
    "Service",
}


def test_public_class_names_are_unique() -> None:
    homes = collections.defaultdict(list)
    for path in MODULES:
        if "_pb2" in path.name:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module_id(path))
    twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
    surplus = {name: twice[name] for name in twice.keys() - SHARED_CLASS_NAMES}
    assert surplus == {}, "public names of classes are unique: rename all but one"


# Metaphors and placeholders that an earlier tree used. docs/decisions/011 has the words instead.
BANNED_WORDS = {
    *("ailment", "ailments", "around", "blame", "breathe", "census", "cohort", "each", "endured"),
    *("eye", "hall", "hearsay", "piece", "pieces", "roomy", "scout", "seating", "stray", "strays"),
    *("surroundings", "tally", "twin", "twins", "wellbeing", "wish", "wishes"),
}
ALLOWED_IDENTIFIERS = {"each_item", "each_key", "each_value"}
BANNED_OPENINGS = re.compile(r"(What|How|Which|Why|Who|Whom|Where) ")
BANNED_PHRASES = re.compile(r"\b(another than|otherwise than|to whom|so many|anew|he)\b")


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield node.lineno, name


def words(identifier: str) -> set[str]:
    return set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", identifier).lower().split("_"))


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_identifiers_are_plain_words(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    bad = [
        f"line {line}: {name}"
        for line, name in identifiers(tree)
        if name not in ALLOWED_IDENTIFIERS and words(name) & BANNED_WORDS
    ]
    assert not bad, (
        f"{bad}: name what it holds, docs/decisions/011-names-and-rooms.md has the words"
    )


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_docstrings_begin_with_a_verb_or_a_noun(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bad = []
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, documented) else None
        if text and (BANNED_OPENINGS.match(text) or BANNED_PHRASES.search(text)):
            bad.append(f"line {getattr(node, 'lineno', 1)}: {text.splitlines()[0]}")
    assert not bad, f"{bad}: begin with a verb, or say what an instance is; see CONTRIBUTING"


# Phrases of earlier texts: translated word by word, or with software as a person.
BANNED_IN_TEXTS = re.compile(
    r"\b(all the same|also those below|and how it is|another than|as (it|they) should be"
    r"|begins? anew|cannot say what|complete, in Python|goes on as soon|in name only|in vain"
    r"|let us in|may never be|mend(s|ed)?|no node to look at|nothing is in its way|of which"
    r"|otherwise than|pods that mean it|remembers what|say what was|see dray work|so many"
    r"|stands? by|the way of the pod|to whom|told to end|what was since|whoever)\b",
    re.IGNORECASE,
)
TEXTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "walks").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    }
    - {ROOT / "docs" / "reference.md", ROOT / "docs" / "modules.md", ROOT / "CHANGELOG.md"}
)
"""The pages that are written by hand."""


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that users may see: all but docstrings, and those of commands."""
    hidden = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = getattr(node, "decorator_list", ())
            is_command = any(re.search(r"command|group", ast.unparse(item)) for item in decorators)
            hidden |= {
                id(line.value)
                for line in node.body[int(is_command) :]
                if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
            }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in hidden
        ):
            yield node.lineno, " ".join(node.value.split())


@pytest.mark.parametrize("path", MODULES, ids=module_id)
def test_messages_are_plain_english(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    bad = [f"line {line}: {text}" for line, text in messages(tree) if BANNED_IN_TEXTS.search(text)]
    assert not bad, f"{bad}: see CONTRIBUTING"


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_plain_english(page: Path) -> None:
    lines = enumerate(page.read_text("utf-8").splitlines(), 1)
    bad = [f"line {number}: {line}" for number, line in lines if BANNED_IN_TEXTS.search(line)]
    assert not bad, f"{bad}: see CONTRIBUTING"


# A path with a slash and a suffix, or a package, as the page writes them.
_MENTIONED = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+(?:\.[a-z]+)?)`")


PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "architecture.md",
    *sorted((ROOT / "docs" / "decisions").glob("0*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_name_modules_that_exist(page: Path) -> None:
    roots = (ROOT / "src" / "dray", ROOT)
    mentioned = _MENTIONED.findall(page.read_text("utf-8"))
    assert [path for path in mentioned if not any((root / path).exists() for root in roots)] == []
