"""Parse CEL text into a tree: a Pratt parser for cel-go's grammar, with its positions and limits.

Every nested expression is a step (see `traversal`), so that the depth cel-go allows does not depend
on how much of Python's stack the caller has used. Reserved names, invalid literals and misused
macros are recorded and parsing continues, also behind one token too many or one that is missing. It
ends at any other syntax error: cel-go's generated parser guesses how to go on and reports more,
which are usually caused by the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from dray.cel.issues import CompilationFailed, Issue
from dray.cel.syntax import lexer, literals, macros, syntax_errors, traversal
from dray.cel.syntax.factory import Factory, TooManyNodes
from dray.cel.syntax.lexer import Token
from dray.cel.syntax.nodes import Constant, FieldEntry, MapEntry, Node
from dray.cel.syntax.syntax_errors import EXPRESSION_START, FIELD_NAMES, SyntaxFailure
from dray.cel.syntax.traversal import Step

MAX_CODE_POINTS = 100_000
MAX_DEPTH = 250

RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"}
    | {"let", "loop", "package", "namespace", "null", "return", "true", "var", "void", "while"}
)

_OR, _AND, _RELATION, _SUM, _PRODUCT = range(1, 6)
_OPERATORS = {
    "||": (_OR, "_||_"),
    "&&": (_AND, "_&&_"),
    "<": (_RELATION, "_<_"),
    "<=": (_RELATION, "_<=_"),
    ">": (_RELATION, "_>_"),
    ">=": (_RELATION, "_>=_"),
    "==": (_RELATION, "_==_"),
    "!=": (_RELATION, "_!=_"),
    "in": (_RELATION, "@in"),
    "+": (_SUM, "_+_"),
    "-": (_SUM, "_-_"),
    "*": (_PRODUCT, "_*_"),
    "/": (_PRODUCT, "_/_"),
    "%": (_PRODUCT, "_%_"),
}
_SIGNS = {"!": "!_", "-": "-_"}
_NUMBERS = frozenset({lexer.INT, lexer.DOUBLE})
_CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_FIELDS_START = ("}", ",", "?", *FIELD_NAMES)
_BEHIND_OPERAND = frozenset({*_OPERATORS, ".", "[", "?"})
"""What may follow any operand; what encloses it allows more."""


class _TooDeep(Exception):
    """The text nests deeper than cel-go reads."""


class _Operator(NamedTuple):
    precedence: int
    function: str
    position: int


def parse(text: str, *, has_bind: bool = True) -> Node:
    """Parse `text` and expand its macros. Raises CompilationFailed.

    Without `has_bind`, `cel.bind` is a call as any other: admission policies do not have it.
    """
    _check_text(text)
    tokens, issues = lexer.tokenize(text)
    parser = _Parser(text, tokens, issues, has_bind=has_bind)
    try:
        tree = traversal.run(parser.start())
    except (_TooDeep, TooManyNodes) as problem:
        raise _failure(text, str(problem)) from None
    except SyntaxFailure as error:
        raise CompilationFailed(text, [*issues, *error.issues]) from None
    if issues:
        raise CompilationFailed(text, issues)
    return tree


def _check_text(text: str) -> None:
    if len(text) > MAX_CODE_POINTS:
        size = f"size: {len(text)}, limit {MAX_CODE_POINTS}"
        raise _failure(text, f"expression code point size exceeds limit: {size}")
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        message = f"expression is not valid Unicode: half a character at {problem.start + 1}"
        raise _failure(text, message) from None


def _failure(text: str, message: str) -> CompilationFailed:
    return CompilationFailed(text, [Issue(None, message)])


class _Parser:
    """One run over the tokens. The depths count cel-go's grammar rules that are being read."""

    def __init__(
        self, text: str, tokens: list[Token], issues: list[Issue], *, has_bind: bool
    ) -> None:
        self._text = text
        self._tokens = tokens
        self._issues = issues
        self._has_bind = has_bind
        self._index = 0
        self._token = tokens[0]
        # What may follow the expressions that are being read; the innermost comes last.
        self._closers: list[tuple[str, ...]] = [(lexer.END,)]
        self._nodes = Factory()
        self._expression_depth = 0
        self._relation_depth = 0
        self._calculation_depth = 0
        # A tree is not deeper than its tokens are many, so short texts need no heights.
        self._heights: dict[int, int] | None = {} if len(tokens) > MAX_DEPTH else None

    def start(self) -> Step[Node]:
        tree: Node = yield self._expression()
        self._expect(lexer.END)
        if self._height(tree) > MAX_DEPTH:
            raise _TooDeep("max recursion depth exceeded")
        return tree

    def _advance(self) -> Token:
        token = self._token
        if token.kind != lexer.END:
            self._index += 1
            self._token = self._tokens[self._index]
        return token

    def _accept(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._advance()
        return True

    def _expect(self, kind: str, behind: Collection[str] = ()) -> Token:
        """Take a token of one kind; where it is missing, `behind` would fit behind it."""
        if self._token.kind == kind or self._drops_token({kind}):
            return self._advance()
        if self._token.kind not in behind:
            raise SyntaxFailure(syntax_errors.mismatched(self._token, (kind,)))
        self._issues.append(syntax_errors.missing(kind, self._token))
        return Token(kind, "", self._token.position)

    def _expect_last(self, kind: str) -> None:
        """Take the token that ends a list or a map; a comma may stand before it."""
        if self._token.kind not in (kind, ",") and not self._drops_token({kind, ","}):
            raise SyntaxFailure(syntax_errors.mismatched(self._token, (kind, ",")))
        self._accept(",")
        self._close(kind)

    def _drops_token(self, expected: Collection[str]) -> bool:
        """Leave out a token behind which one of those stands that are expected."""
        if self._token.kind == lexer.END or self._tokens[self._index + 1].kind not in expected:
            return False
        self._issues.append(syntax_errors.extraneous(self._token, expected))
        self._advance()
        return True

    def _close(self, kind: str) -> None:
        """Take the token that ends an operand."""
        if not self._accept(kind):
            self._expect(kind, self._behind_operand())

    def _behind_operand(self) -> frozenset[str]:
        return _BEHIND_OPERAND.union(self._closers[-1])

    def _within(self, *closers: str) -> Step[Node]:
        """Parse an expression behind which one of these stands."""
        self._closers.append(closers)
        tree: Node = yield self._expression()
        self._closers.pop()
        return tree

    def _begin(self, *others: str) -> None:
        """Find that an expression begins here, or something else that may stand instead."""
        if self._token.kind in EXPRESSION_START or self._token.kind in others:
            return
        expected = EXPRESSION_START.union(others)
        if not self._drops_token(expected):
            raise SyntaxFailure(syntax_errors.mismatched(self._token, expected))

    def _note(self, position: int, problem: object) -> Node:
        """Record an error; returns a node in place of the expression."""
        self._issues.append(Issue(position, str(problem)))
        return self._nodes.literal(position, None)

    def _height(self, node: Node) -> int:
        return self._heights.get(node.id, 0) if self._heights else 0

    def _raised(self, node: Node, parts: tuple[Node, ...], by: int = 0) -> Node:
        """Record how deep cel-go recurses into a node, if the text is long enough to matter.

        Its visitor counts conditions, relations, calculations, selections, member calls and
        indexes (cel-go parser/parser.go, Visit).
        """
        if self._heights is not None:
            self._heights[node.id] = max(map(self._height, parts), default=0) + by
        return node

    def _operator_call(self, position: int, function: str, *operands: Node) -> Node:
        return self._raised(self._nodes.call(position, function, *operands), operands, by=1)

    def _expression(self) -> Step[Node]:
        """Parse one operation, or a condition with its two branches."""
        self._expression_depth += 1
        if self._expression_depth > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")
        tree: Node = yield self._operation()
        if self._token.kind == "?":
            position = self._advance().position
            self._closers.append((":",))
            when_true = yield self._operation()
            self._closers.pop()
            self._expect(":", EXPRESSION_START)
            when_false = yield self._expression()
            tree = self._operator_call(position, "_?_:_", tree, when_true, when_false)
        self._expression_depth -= 1
        return tree

    def _operation(self) -> Step[Node]:
        """Parse operands joined by binary operators; weaker operators wait on a stack."""
        relations, calculations = self._relation_depth, self._calculation_depth
        operators: list[_Operator] = []
        operands: list[Node] = []
        while True:
            self._relation_depth, self._calculation_depth = relations + 1, calculations + 1
            self._count_waiting(operators)
            operands.append((yield from self._unary()))
            operator = _OPERATORS.get(self._token.kind)
            if operator is None:
                break
            precedence, function = operator
            self._reduce(operators, operands, precedence)
            operators.append(_Operator(precedence, function, self._advance().position))
        self._reduce(operators, operands, 0)
        self._relation_depth, self._calculation_depth = relations, calculations
        return operands[0]

    def _count_waiting(self, operators: list[_Operator]) -> None:
        # At most one operator per precedence waits (chains of && and || aside), so three suffice.
        for operator in reversed(operators[-3:]):
            if operator.precedence >= _SUM:
                self._calculation_depth += 1
            elif operator.precedence == _RELATION:
                self._relation_depth += 1
        if self._relation_depth > MAX_DEPTH or self._calculation_depth > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")

    def _reduce(self, operators: list[_Operator], operands: list[Node], precedence: int) -> None:
        """Build the operations that bind at least as tightly as the next operator.

        Chains of && and || are built as a whole when they end.
        """
        # `>=` makes operators of one precedence associate to the left.
        while operators and operators[-1].precedence >= max(precedence, _RELATION):
            operator = operators.pop()
            right, left = operands.pop(), operands.pop()
            operands.append(self._operator_call(operator.position, operator.function, left, right))
        for chained in (_AND, _OR):
            if precedence < chained:
                self._reduce_chain(operators, operands, chained)

    def _reduce_chain(
        self, operators: list[_Operator], operands: list[Node], precedence: int
    ) -> None:
        first = len(operators)
        while first and operators[first - 1].precedence == precedence:
            first -= 1
        chain = operators[first:]
        if chain:
            terms = operands[-len(chain) - 1 :]
            del operators[first:], operands[-len(chain) - 1 :]
            operands.append(self._balance(chain, terms))

    def _balance(self, chain: list[_Operator], terms: list[Node]) -> Node:
        """Build a flat tree for a long chain (cel-go parser/helper.go, balancedTree)."""
        if not chain:
            return terms[0]
        middle = len(chain) // 2
        left = self._balance(chain[:middle], terms[: middle + 1])
        right = self._balance(chain[middle + 1 :], terms[middle + 1 :])
        operator = chain[middle]
        node = self._nodes.call(operator.position, operator.function, left, right)
        return self._raised(node, (left, right))

    def _unary(self) -> Step[Node]:
        """Parse a member with its signs; an even number of signs cancels out."""
        sign = self._token.kind
        if sign not in _SIGNS:
            return (yield from self._member())
        position = self._token.position
        signs = 0
        while self._token.kind == sign:
            last = self._advance()
            signs += 1
        self._check_behind_sign(last)
        # The sign belongs to the literal, because -9223372036854775808 has no positive form.
        if sign == "-" and signs == 1 and self._token.kind in _NUMBERS:
            return (yield from self._postfix(self._value(position, literals.number, "-")))
        operand = yield from self._member()
        if signs % 2 == 0:
            return operand
        return self._raised(self._nodes.call(position, _SIGNS[sign], operand), (operand,))

    def _check_behind_sign(self, sign: Token) -> None:
        """Refuse what is no operand. `!-x` and `-!x` are not in cel-go's grammar, either."""
        token = self._token
        if token.kind in ("-", "!"):
            first, token = (
                (token, self._tokens[self._index + 1]) if sign.kind == "!" else (sign, token)
            )
            raise SyntaxFailure(syntax_errors.no_alternative(self._text, first, token))
        if token.kind in EXPRESSION_START:
            return
        if sign.kind == "!":
            raise SyntaxFailure(syntax_errors.extraneous(token, EXPRESSION_START))
        raise SyntaxFailure(
            syntax_errors.no_alternative(self._text, sign, token),
            syntax_errors.mismatched(token, EXPRESSION_START),
        )

    def _member(self) -> Step[Node]:
        operand = yield from self._primary()
        return (yield from self._postfix(operand))

    def _postfix(self, operand: Node) -> Step[Node]:
        """Parse the selections, member calls and indexes behind an operand."""
        while True:
            if self._token.kind == ".":
                operand = yield from self._selection(operand)
            elif self._token.kind == "[":
                operand = yield from self._index_access(operand)
            else:
                return operand

    def _index_access(self, operand: Node) -> Step[Node]:
        position = self._advance().position
        self._begin("?")
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = yield self._within("]")
        self._close("]")
        return self._operator_call(position, function, operand, index)

    def _selection(self, operand: Node) -> Step[Node]:
        dot = self._advance()
        optional = self._accept("?")
        token = self._expect_field() if optional else self._selected(dot)
        if token is None:
            return operand
        position = dot.position
        if optional:
            field = self._nodes.literal(token.position, _field_name(token))
            return self._operator_call(position, "_?._", operand, field)
        if token.kind == lexer.IDENTIFIER and self._token.kind == "(":
            opening = self._advance().position
            arguments = yield from self._arguments()
            node = self._call_or_macro(opening, token.text, operand, arguments)
            return self._raised(node, (operand, *arguments), by=1)
        node = self._nodes.select(position, operand, _field_name(token))
        return self._raised(node, (operand,), by=1)

    def _selected(self, dot: Token) -> Token | None:
        """Take the name behind a dot; without one, skip to what may follow the operand."""
        if self._token.kind in FIELD_NAMES:
            return self._advance()
        issue = syntax_errors.no_alternative(self._text, dot, self._token)
        behind = self._behind_operand() - {".", "["}
        while self._token.kind not in behind and self._token.kind != lexer.END:
            self._advance()
        if self._token.kind == lexer.END:
            raise SyntaxFailure(issue)
        self._issues.append(issue)
        return None

    def _expect_field(self) -> Token:
        if self._token.kind not in FIELD_NAMES and not self._drops_token(FIELD_NAMES):
            # cel-go's visitor complains about the gap as well.
            raise SyntaxFailure(
                syntax_errors.mismatched(self._token, FIELD_NAMES),
                Issue(self._token.position, "unsupported ident kind"),
            )
        return self._advance()

    def _arguments(self) -> Step[list[Node]]:
        arguments: list[Node] = []
        self._begin(")")
        if self._accept(")"):
            return arguments
        arguments.append((yield self._within(",", ")")))
        while self._accept(","):
            arguments.append((yield self._within(",", ")")))
        self._close(")")
        return arguments

    def _primary(self) -> Step[Node]:
        self._begin()
        kind = self._token.kind
        if kind == lexer.IDENTIFIER or kind == ".":
            return (yield from self._name())
        if kind == "(":
            self._advance()
            tree: Node = yield self._within(")")
            self._close(")")
            return tree
        if kind == "[":
            return (yield from self._list())
        if kind == "{":
            return (yield from self._map())
        return self._literal()

    def _literal(self) -> Node:
        token = self._token
        if token.kind in _NUMBERS or token.kind == lexer.UINT:
            return self._value(token.position, literals.number)
        if token.kind in _CONSTANTS:
            self._advance()
            return self._nodes.literal(token.position, _CONSTANTS[token.kind])
        if token.kind not in (lexer.STRING, lexer.BYTES):
            raise SyntaxFailure(syntax_errors.mismatched(token, EXPRESSION_START))
        return self._value(token.position, literals.text_or_bytes)

    def _value(self, position: int, read: Callable[[str, str], Constant], sign: str = "") -> Node:
        token = self._advance()
        try:
            return self._nodes.literal(position, read(token.kind, sign + token.text))
        except literals.InvalidLiteral as problem:
            return self._note(position, problem)

    def _name(self) -> Step[Node]:
        """Parse a variable, a function call or, if `{` follows, a message."""
        start = self._token.position
        dot = "." if self._accept(".") else ""
        if self._token.kind != lexer.IDENTIFIER:
            first = self._tokens[self._index - 1]
            raise SyntaxFailure(syntax_errors.no_alternative(self._text, first, self._token))
        name = self._advance()
        if self._token.kind == "(":
            opening = self._advance().position
            arguments = yield from self._arguments()
            if name.text in RESERVED:
                return self._note(start, f"reserved identifier: {name.text}")
            node = self._call_or_macro(opening, dot + name.text, None, arguments)
            return self._raised(node, tuple(arguments))
        if type_name := self._message_name(name.text):
            return (yield from self._message(dot + type_name))
        if name.text in RESERVED:
            return self._note(start, f"reserved identifier: {name.text}")
        return self._nodes.identifier(name.position, dot + name.text)

    def _message_name(self, name: str) -> str | None:
        """Take the dotted name up to a `{`. Returns None, and takes nothing, without one."""
        index = self._index
        while self._tokens[index].kind == ".":
            if self._tokens[index + 1].kind != lexer.IDENTIFIER:
                return None
            name += "." + self._tokens[index + 1].text
            index += 2
        if self._tokens[index].kind != "{":
            return None
        self._index = index
        self._token = self._tokens[index]
        return name

    def _message(self, type_name: str) -> Step[Node]:
        position = self._advance().position
        fields: list[FieldEntry] = []
        if self._token.kind not in _FIELDS_START and not self._drops_token(_FIELDS_START):
            raise SyntaxFailure(syntax_errors.mismatched(self._token, _FIELDS_START))
        while self._token.kind not in ("}", ","):
            optional = self._accept("?")
            field = self._expect_field()
            colon = self._expect(":", EXPRESSION_START).position
            value = yield self._within(",", "}")
            fields.append(self._nodes.field(colon, _field_name(field), value, optional))
            if not self._continues("}"):
                break
        self._expect_last("}")
        node = self._nodes.struct(position, type_name, *fields)
        return self._raised(node, tuple(field.value for field in fields))

    def _list(self) -> Step[Node]:
        position = self._advance().position
        elements: list[Node] = []
        optional: set[int] = set()
        self._begin("]", ",", "?")
        while self._token.kind not in ("]", ","):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append((yield self._within(",", "]")))
            if not self._continues("]"):
                break
        self._expect_last("]")
        node = self._nodes.list(position, *elements, optional=frozenset(optional))
        return self._raised(node, node.elements)

    def _map(self) -> Step[Node]:
        position = self._advance().position
        entries: list[MapEntry] = []
        self._begin("}", ",", "?")
        while self._token.kind not in ("}", ","):
            optional = self._accept("?")
            key = yield self._within(":")
            colon = self._expect(":", EXPRESSION_START).position
            value = yield self._within(",", "}")
            entries.append(self._nodes.entry(colon, key, value, optional))
            if not self._continues("}"):
                break
        self._expect_last("}")
        node = self._nodes.map(position, *entries)
        parts = (part for entry in entries for part in (entry.key, entry.value))
        return self._raised(node, tuple(parts))

    def _continues(self, end: str) -> bool:
        """Take a comma behind which another element begins; the last comma is left."""
        following = self._tokens[self._index + 1].kind if self._token.kind == "," else end
        if following not in EXPRESSION_START and following != "?" and following not in FIELD_NAMES:
            return False
        return self._accept(",")

    def _call_or_macro(
        self, position: int, function: str, target: Node | None, arguments: list[Node]
    ) -> Node:
        if function == "bind" and not self._has_bind:
            return self._nodes.call(position, function, *arguments, target=target)
        try:
            expanded = macros.expand(self._nodes, position, function, target, arguments)
        except macros.MacroError as problem:
            return self._note(problem.position, problem)
        if expanded is not None:
            return expanded
        return self._nodes.call(position, function, *arguments, target=target)


def _field_name(token: Token) -> str:
    return token.text[1:-1] if token.kind == lexer.ESCAPED_IDENTIFIER else token.text
