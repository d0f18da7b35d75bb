"""Environments and arguments that a pod chooses: bounded, and never an option of a program."""

from __future__ import annotations

import asyncio
import base64
import tracemalloc
from typing import Any

import msgspec
import pytest

from dray.api.types.containers import Container
from dray.api.types.pods import Pod
from dray.node.runtimes.interface import ContainerConfigError
from dray.node.specs import environment
from tests.cluster.site import Site, container, needs_sandbox, pod, with_node
from tests.security import ordinary_user

POD = Pod()
LIMIT, TOTAL = environment.MAX_STRING_BYTES, environment.MAX_TOTAL_BYTES
MEMORY = 64 << 20
"""What the agent may use for one hostile container."""


class Documents:
    def __init__(self, data: dict[str, bytes]) -> None:
        self._data = data
        self.reads = 0

    async def get(self, _kind: Any, _name: str, _namespace: str) -> Any:
        self.reads += 1
        return {"data": {key: base64.b64encode(value) for key, value in self._data.items()}}


def built(fields: dict[str, Any], secret: dict[str, bytes] | None = None) -> dict[str, str]:
    client: Any = Documents(secret or {})
    made = msgspec.convert({"name": "c", **fields}, Container)
    env = asyncio.run(environment.build(client, POD, made))
    argv = (*environment.command(made, env), *environment.arguments(made, env))
    environment.check_total(made, argv, env)
    return env


def variables(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in pairs]}


def from_secret(*names: str) -> dict[str, Any]:
    return {
        "env": [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
            for name in names
        ]
    }


def doubling(count: int, times: int = 2) -> dict[str, Any]:
    names = [f"V{number}" for number in range(count)]
    values = ["x" * 10, *(f"$({name})" * times for name in names)]
    return variables(*zip(names, values, strict=False))


ALL = {"envFrom": [{"secretRef": {"name": "s"}}]}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, bytes], str]] = {
    "doubling": (doubling(1000), {}, "longer than"),
    "doubling-a-little": (doubling(15), {}, "longer than"),
    "tenfold": (doubling(1000, 10), {}, "longer than"),
    "thousandfold": (doubling(1000, 1000), {}, "longer than"),
    "wide": (
        variables(("A", "x" * 100_000), *((f"B{n}", "$(A)") for n in range(1000))),
        {},
        r"env\[\d+\]: longer than",
    ),
    "one-long-value": (variables(("A", "x" * LIMIT)), {}, r"env\[0\] \(A\): longer than"),
    "one-long-name": (variables(("A" * LIMIT, "")), {}, "longer than"),
    "long-in-bytes": (variables(("A", "ü" * (LIMIT // 2 + 1))), {}, "longer than"),
    "many-values": (variables(*((f"A{n}", "x" * 1000) for n in range(3000))), {}, "longer than"),
    "many-empty": (variables(*((f"A{n}", "") for n in range(200_000))), {}, "longer than"),
    "nul-in-value": (variables(("A", "a\0b")), {}, r"env\[0\] \(A\): it has a NUL byte"),
    "nul-in-name": (variables(("A\0", "b")), {}, "cannot be the name"),
    "equals-in-name": (variables(("A=B", "b")), {}, "cannot be the name"),
    "no-name": (variables(("", "b")), {}, "cannot be the name"),
    "half-a-character": (variables(("A", "\ud800")), {}, "not valid Unicode"),
    "nul-in-secret": (from_secret("A"), {"k": b"a\0b"}, "NUL byte"),
    "long-secret": (from_secret("A"), {"k": b"x" * LIMIT}, "longer than"),
    "long-secret-often": (
        from_secret(*(f"A{n}" for n in range(50))),
        {"k": b"x" * 100_000},
        "longer than",
    ),
    "nul-in-all": (ALL, {"k": b"\0"}, r"envFrom\[0\] \(k\): it has a NUL byte"),
    "long-in-all": (ALL, {"k": b"x" * LIMIT}, "longer than"),
    "prefix-with-equals": (
        {"envFrom": [{"prefix": "A=", "secretRef": {"name": "s"}}]},
        {"k": b"v"},
        "cannot be the name",
    ),
    "nul-in-command": ({"command": ["sh\0"]}, {}, r"command\[0\]: it has a NUL byte"),
    "nul-in-argument": ({"args": ["a", "b\0"]}, {}, r"args\[1\]: it has a NUL byte"),
    "long-argument": ({"args": ["x" * (LIMIT + 1)]}, {}, "longer than"),
    "many-arguments": ({"args": ["x"] * 400_000}, {}, "args: longer than"),
    "expanded-argument": (
        {**variables(("A", "x" * 100_000)), "args": ["$(A)$(A)"]},
        {},
        "longer than",
    ),
    "expanded-arguments": (
        {**variables(("A", "x" * 100_000)), "args": ["$(A)"] * 10_000},
        {},
        "args: longer than",
    ),
    "everything-together": (
        {**variables(*((f"A{n}", "x" * 100_000) for n in range(15))), "args": ["y" * 100_000] * 10},
        {},
        "container c: longer than",
    ),
}


@pytest.mark.parametrize(("fields", "secret", "message"), REFUSED.values(), ids=REFUSED)
def test_what_no_process_can_be_given(
    fields: dict[str, Any], secret: dict[str, bytes], message: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ContainerConfigError, match=message) as caught:
            built(fields, secret)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 1000


HARMLESS = {
    "unclosed": ("$(" * 500, "$(" * 500),
    "unclosed-name": ("$(A", "$(A"),
    "closed-late": ("$(" * 500 + ")", "$(" * 500 + ")"),
    "dollars": ("$$$$(A)", "$$(A)"),
    "escaped": ("$$(A)", "$(A)"),
    "odd": ("$$$(A)", "$1"),
    "nested": ("$($(A))", "$($(A))"),
    "at-the-end": ("$", "$"),
    "of-the-shell": ("${A} $A `A`", "${A} $A `A`"),
    "unknown": ("$(B)", "$(B)"),
    "empty-name": ("$()", "$()"),
    "not-again": ("$(C)", "$(A)"),
}


@pytest.mark.parametrize(("text", "expected"), HARMLESS.values(), ids=HARMLESS)
def test_references_that_are_odd(text: str, expected: str) -> None:
    assert environment.expand(text, {"A": "1", "C": "$(A)"}) == expected


@pytest.mark.parametrize(
    "text", ["$(" * 60_000, "$(" * 60_000 + ")", "$" * 120_000, ")$(" * 40_000]
)
def test_references_take_time_in_proportion_to_their_length(text: str) -> None:
    """The time of the process would be minutes if every bracket were searched to the end."""
    for _ in range(20):
        environment.expand(text, {})


def test_a_value_may_be_as_long_as_the_kernel_takes() -> None:
    value = "x" * (LIMIT - len("A="))
    assert built(variables(("A", value))) == {"A": value}


def test_variables_of_one_object_are_one_read() -> None:
    client: Any = Documents({"k": b"x"})
    fields = {"name": "c", **from_secret(*(f"A{number}" for number in range(10_000))), **ALL}
    env = asyncio.run(environment.build(client, POD, msgspec.convert(fields, Container)))
    assert len(env) == 10_001
    assert client.reads == 1


@needs_sandbox
def test_a_process_gets_what_was_checked() -> None:
    """The limits are those of the kernel: what passes starts, also just below them."""

    async def story(here: Site) -> None:
        size = 100_000
        env = [{"name": f"A{number}", "value": "x" * size} for number in range(9)]
        env += [{"name": "LAST", "value": "y" * (LIMIT - 5)}]
        env += [{"name": "-rf", "value": "--help"}, {"name": "a.b", "value": "line\nline"}]
        main = container("echo ${#LAST} ${#A8}; exec sleep 100", env=env)
        await here.world.create(pod("p", main))
        assert (await here.output("p")).split() == [str(LIMIT - 5), str(size)]

    with_node(story)


@needs_sandbox
def test_arguments_that_look_like_options_of_the_sandbox() -> None:
    async def story(here: Site) -> None:
        main = container("")
        main |= {"command": ["/bin/echo"], "args": ["--bind", "/", "/host", "--", "-n"]}
        await here.world.create(pod("p", main, restartPolicy="Never"))
        assert (await here.output("p")).split() == ["--bind", "/", "/host", "--", "-n"]

    with_node(story)


def test_all_of_this_as_an_ordinary_user() -> None:
    ordinary_user.run_again(__file__)
