"""Selections in plain code: chains of fields, keys and indexes, and the optionals they give."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from dray.cel.code.compilation_plan import Qualifier, SelectionChain
from dray.cel.code.emitter import MAYBE_OPTIONAL, Emitter
from dray.cel.runtime import operations
from dray.cel.runtime.values import MISSING, NONE, Optional
from dray.cel.syntax.nodes import FunctionCall, Node
from dray.cel.syntax.traversal import Step
from dray.cel.types import Kind

HELPERS: dict[str, Any] = {
    "KeyError": KeyError,
    "TypeError": TypeError,
    "MISSING": MISSING,
    "NONE": NONE,
    "Optional": Optional,
    "advance": operations.advance,
    "is_present": operations.is_present,
    "probe": operations.probe,
    "qualify": operations.qualify,
    "qualify_all": operations.qualify_all,
    "unwrap": operations.unwrap,
    "wrap": operations.wrap,
}

_SHORTCUT_LENGTH = 3


class SelectingEmitter(Emitter):
    @abstractmethod
    def library_call(self, node: FunctionCall) -> Step[str]:
        """Write a call without special treatment."""

    def select(self, node: Node) -> Step[str]:
        chain = self.plan.chain(node)
        if self.plan.type(chain.root).kind in MAYBE_OPTIONAL:
            return (yield from self._dynamic_chain(chain))
        if not any(qualifier.is_optional for qualifier in chain.qualifiers):
            return (yield from self._plain_chain(chain))
        value = yield from self._optional_chain(chain)
        return value if chain.qualifiers[-1].is_test else self.writer.assign(f"wrap({value})")

    def _key(self, qualifier: Qualifier) -> Step[str]:
        if isinstance(qualifier.key, str):
            return self.writer.constant(qualifier.key)
        return (yield from self.nested(qualifier.key))

    def _plain_chain(self, chain: SelectionChain) -> Step[str]:
        value = yield from self.chain_start(chain)
        qualifiers = chain.qualifiers
        if shortcut := self._shortcut(chain):
            value = self._take_shortcut(value, shortcut, qualifiers[:_SHORTCUT_LENGTH])
            qualifiers = qualifiers[_SHORTCUT_LENGTH:]
        for qualifier in qualifiers:
            key = yield from self._key(qualifier)
            value = self._qualified(value, key, qualifier.is_test)
        return value

    def _shortcut(self, chain: SelectionChain) -> str | None:
        """Return the key under which an object may hold a deep value directly, or None."""
        if self.plan.type(chain.root).kind is not Kind.OBJECT:
            return None
        keys = [self.plan.text_key(qualifier) for qualifier in chain.qualifiers[:_SHORTCUT_LENGTH]]
        usable_keys = [key for key in keys if key is not None and operations.SEPARATOR not in key]
        return operations.shortcut(*usable_keys) if len(usable_keys) == _SHORTCUT_LENGTH else None

    def _take_shortcut(self, value: str, shortcut: str, qualifiers: Sequence[Qualifier]) -> str:
        """Write the first steps of a chain, in one step if the object allows it."""
        writer = self.writer
        name = writer.name("t")
        key = writer.constant(shortcut)
        steps = [self.plan.text_key(qualifier) for qualifier in qualifiers]
        if not qualifiers[-1].is_test:
            # Python takes most of the time of a compilation for `try`: the steps get none.
            writer.line(f"try: {name} = {value}[{key}]")
            keys = writer.constant(tuple(steps))
            writer.line(f"except KeyError: {name} = qualify_all({value}, {keys})", may_fail=True)
            return name
        writer.line(f"if {key} in {value}: {name} = True")
        with writer.block("else:"):
            for qualifier, step in zip(qualifiers, steps, strict=True):
                value = self._qualified(value, writer.constant(step), qualifier.is_test)
            writer.line(f"{name} = {value}")
        return name

    def _qualified(self, value: str, key: str, is_test: bool) -> str:
        writer = self.writer
        if is_test:
            return writer.assign(f"is_present({value}, {key})", may_fail=True)
        if not writer.is_constant(key) or writer.value(key).__class__ is not str:
            return writer.assign(f"qualify({value}, {key})", may_fail=True)
        # Of all values only maps can be subscripted with a string.
        name = writer.name("t")
        writer.line(f"try: {name} = {value}[{key}]")
        with writer.block("except (KeyError, TypeError):"):
            writer.line(f"{name} = qualify({value}, {key})", may_fail=True)
        return name

    def _optional_chain(self, chain: SelectionChain) -> Step[str]:
        """Write a chain with an optional step: its value or MISSING, or whether it exists."""
        writer = self.writer
        first = next(i for i, step in enumerate(chain.qualifiers) if step.is_optional)
        plain = SelectionChain(chain.root, chain.qualifiers[:first])
        name = writer.assign((yield from self._plain_chain(plain)))
        for number, qualifier in enumerate(chain.qualifiers[first:]):
            with writer.block(f"if {name} is not MISSING:") if number else nullcontext():
                key = yield from self._key(qualifier)
                writer.line(f"{name} = probe({name}, {key})", may_fail=True)
        if chain.qualifiers[-1].is_test:
            return writer.assign(f"{name} is not MISSING")
        return name

    def _dynamic_chain(self, chain: SelectionChain) -> Step[str]:
        """Write a chain that may start at an optional, which only the run shows."""
        writer = self.writer
        root = yield from self.chain_start(chain)
        if keys := self._constant_keys(chain):
            return writer.assign(f"qualify_all({root}, {keys})", may_fail=True)
        is_optional = writer.assign(f"{root}.__class__ is Optional")
        value = writer.assign(f"unwrap({root})")
        for qualifier in chain.qualifiers:
            if qualifier.is_optional:
                writer.line(f"{is_optional} = True")
            with writer.block(f"if {value} is not MISSING:"):
                key = yield from self._key(qualifier)
                is_probe = "True" if qualifier.is_test else is_optional
                writer.line(f"{value} = advance({value}, {key}, {is_probe})", may_fail=True)
        if chain.qualifiers[-1].is_test:
            return writer.assign(f"{value} is not MISSING")
        return writer.assign(f"wrap({value}, {is_optional})")

    def _constant_keys(self, chain: SelectionChain) -> str | None:
        """Return the keys of a chain as one constant, or None if one is variable or optional."""
        keys: list[Any] = []
        for key, is_optional, is_test in chain.qualifiers:
            if is_optional or is_test:
                return None
            if isinstance(key, str):
                keys.append(key)
            elif self.plan.is_constant(key):
                keys.append(self.plan.constant(key))
            else:
                return None
        return self.writer.constant(tuple(keys))

    def _probed(self, node: Node) -> Step[str | None]:
        """Write the value or MISSING of an optional without building it, or return None."""
        if not self.plan.qualifier(node):
            return None
        chain = self.plan.chain(node)
        is_static = self.plan.type(chain.root).kind not in MAYBE_OPTIONAL
        if not is_static or not any(qualifier.is_optional for qualifier in chain.qualifiers):
            return None
        return (yield from self._optional_chain(chain))

    def or_value(self, node: FunctionCall) -> Step[str]:
        optional, alternative = self.plan.operands(node)
        result = yield from self._probed(optional)
        if result is None:
            value = yield from self._optional(optional)
            result = self.writer.assign(f"{value}.value if {value} is not NONE else MISSING")
        yield from self._replace_if(f"{result} is MISSING", result, alternative)
        return result

    def or_optional(self, node: FunctionCall) -> Step[str]:
        optional, alternative = self.plan.operands(node)
        result = self.writer.assign((yield from self._optional(optional)))
        yield from self._replace_if(f"{result} is NONE", result, alternative)
        return result

    def _optional(self, node: Node) -> Step[str]:
        value: str = yield self.value(node)
        check = f"if {value}.__class__ is not Optional: raise no_such_overload()"
        self.writer.line(check, may_fail=True)
        return value

    def _replace_if(self, condition: str, name: str, alternative: Node) -> Step[None]:
        with self.writer.block(f"if {condition}:"):
            self.writer.line(f"{name} = {(yield self.nested(alternative))}")

    def has_value(self, node: FunctionCall) -> Step[str]:
        value = yield from self._probed(self.plan.operands(node)[0])
        if value is None:
            return (yield from self.library_call(node))
        return self.writer.assign(f"{value} is not MISSING")
