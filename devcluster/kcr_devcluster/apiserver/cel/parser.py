"""The parser: texts become syntax trees, with macros expanded.

After a token that cannot stand where it is, one is left out or taken as there, if the rest can be read then: as ANTLR
does, whose messages upstream shows. Where it cannot, the first error is the last.

Source: github.com/google/cel-spec/doc/langdef.md, "Syntax" and "Macros"; github.com/google/cel-go/parser.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.macros import MACROS, Builder, MacroError
from kcr_devcluster.apiserver.cel.syntax import (
    Call,
    CompilationError,
    Constant,
    Entry,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    Parsed,
    Select,
    SyntaxIssue,
    shown,
)
from kcr_devcluster.apiserver.cel.values import Uint

_DEEPEST = 250
_ESCAPE = r"\\(?:[abfnrtv\\'\"`?]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_QUOTED = "|".join(
    (
        r'[rR]"""(?:.|\n)*?"""', r"[rR]'''(?:.|\n)*?'''", r'[rR]"[^"\n\r]*"', r"[rR]'[^'\n\r]*'",
        rf'"""(?:{_ESCAPE}|[^\\])*?"""', rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"', rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)  # fmt: skip
_TOKEN = re.compile(
    rf"(?P<blank>[\t \r\n\f]+|//[^\n]*)|(?P<BYTES>[bB](?:{_QUOTED}))|(?P<STRING>{_QUOTED})"
    r"|(?P<NUM_FLOAT>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<NUM_UINT>(?:0x[0-9a-fA-F]+|\d+)[uU])|(?P<NUM_INT>0x[0-9a-fA-F]+|\d+)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)|(?P<ESC_IDENTIFIER>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[\[\]{}().,\-!?:+*/%<>])"
)
# What a text that is no token may begin with; the character after it is lost with it.
_HALF = r"(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
_BROKEN = re.compile(
    rf"""[bB]?(?:[rR](?:'[^\n\r']*|"[^\n\r"]*)|'(?:{_ESCAPE}|[^\\\n\r'])*{_HALF}|"(?:{_ESCAPE}|[^\\\n\r"])*{_HALF})"""
    r"|`[a-zA-Z0-9_.\-/ ]*|[=&|]"
)
# The tokens in the order in which messages name them.
_ORDER = (
    "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+",
    "*", "/", "%", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER",
    "ESC_IDENTIFIER",
)  # fmt: skip
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_END = "<EOF>"
_START = frozenset({
    "[", "{", "(", ".", "-", "!", "true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES",
    "IDENTIFIER",
})  # fmt: skip
_LITERALS = frozenset({"true", "false", "null", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES"})
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
    "package", "namespace", "null", "return", "true", "var", "void", "while",
})  # fmt: skip
_RELATIONS = frozenset({"<", "<=", ">=", ">", "==", "!=", "in"})
# How tightly operators bind, and the functions that they call.
_PRECEDENCE: Mapping[str, int] = {**dict.fromkeys(_RELATIONS, 1), "+": 2, "-": 2, "*": 3, "/": 3, "%": 3}
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(_ESCAPE)
_INT_BITS, _UINT_BITS = 63, 64


class _Token(NamedTuple):
    """A token: its kind, a sign or the name of a class, its text, and where it begins."""

    kind: str
    text: str
    offset: int


class _Unreadable(Exception):  # noqa: N818  # ends the reading; the issue is kept
    """Nothing more can be read."""


@lru_cache(1024)
def parse(text: str) -> Parsed:
    """Return the tree of an expression.

    Raises:
        CompilationError: It is no expression.
    """
    parser = _Parser(text)
    root = None
    try:
        root = parser.whole()
    except _Unreadable:
        pass
    except RecursionError:
        parser.too_deep()
    if parser.issues or root is None:
        raise CompilationError(shown(text, parser.issues))
    return Parsed(text, root, parser.positions)


class _Parser:
    """One reading of a text."""

    def __init__(self, text: str) -> None:
        self.issues: list[SyntaxIssue] = []
        self.positions: dict[int, int] = {}
        # What the texts of errors are made of: tokens, and blanks between them.
        self._parts: list[tuple[int, str]] = []
        self._tokens = self._read(text)
        self._at = self._depth = 0
        self._ids = count(1)

    def _read(self, text: str) -> list[_Token]:
        at = 0
        tokens: list[_Token] = []
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                broken = _BROKEN.match(text, at)
                end = min(at + 1 if broken is None else broken.end() + 1, len(text))
                self._syntax(at, f"token recognition error at: '{_printed(text[at:end])}'")
                at = end
                continue
            self._parts.append((at, found[0]))
            if found.lastgroup != "blank":
                kind, said = str(found.lastgroup), found[0]
                tokens.append(_Token(said if kind == "sign" or said in _KEYWORDS else kind, said, at))
            at = found.end()
        return [*tokens, _Token(_END, _END, len(text))]

    def _syntax(self, offset: int, words: str) -> None:
        self.issues.append(SyntaxIssue(offset, f"Syntax error: {words}"))

    def too_deep(self) -> None:
        """Keep that the expression is nested too deeply."""
        self.issues[:] = [SyntaxIssue(-1, f"expression recursion limit exceeded: {_DEEPEST}")]

    # Tokens.

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    @property
    def _after(self) -> _Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _id(self, offset: int) -> int:
        found = next(self._ids)
        self.positions[found] = offset
        return found

    def _expect(self, kind: str, follows: frozenset[str] = frozenset()) -> _Token:
        """Return the next token, which is of a kind; `follows` are those that may stand after it."""
        token = self._next
        if token.kind == kind:
            return self._take()
        if self._after.kind == kind and token.kind != _END:
            self._syntax(token.offset, f"extraneous input {_quoted(token)} expecting {_named(kind)}")
            self._take()
            return self._take()
        if token.kind in follows:
            self._syntax(token.offset, f"missing {_named(kind)} at {_quoted(token)}")
            return _Token(kind, kind, token.offset)
        raise self._mismatched(_named(kind))

    def _begin(self, *more: str) -> None:
        """See that an expression begins, or one of some other tokens stands there."""
        self._one_of(_START | set(more))

    def _one_of(self, wanted: frozenset[str]) -> None:
        """See that one of some tokens stands there, or after a token that can be left out."""
        if self._next.kind in wanted:
            return
        expected = _all_named(wanted)
        if self._next.kind != _END and self._after.kind in wanted:
            self._syntax(self._next.offset, f"extraneous input {_quoted(self._next)} expecting {expected}")
            self._take()
            return
        raise self._mismatched(expected)

    def _mismatched(self, expected: str) -> _Unreadable:
        self._syntax(self._next.offset, f"mismatched input {_quoted(self._next)} expecting {expected}")
        return _Unreadable()

    # Rules of the grammar.

    def whole(self) -> Node:
        """Return the whole expression."""
        root = self._expression()
        if self._next.kind != _END:
            if self._after.kind == _END:
                self._syntax(self._next.offset, f"extraneous input {_quoted(self._next)} expecting <EOF>")
            else:
                raise self._mismatched(_END)
        return root

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self.too_deep()
            raise _Unreadable
        condition = self._disjunction()
        if self._next.kind == "?":
            at = self._id(self._take().offset)
            chosen = self._disjunction()
            self._expect(":", _START)
            condition = Call(at, None, "_?_:_", (condition, chosen, self._expression()))
        self._depth -= 1
        return condition

    def _disjunction(self) -> Node:
        return self._balanced("||", "_||_", lambda: self._balanced("&&", "_&&_", self._binary))

    def _balanced(self, sign: str, function: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        ids: list[int] = []
        while self._next.kind == sign:
            ids.append(self._id(self._take().offset))
            parts.append(part())
        return _tree(function, parts, ids) if ids else parts[0]

    def _binary(self, least: int = 1) -> Node:
        left, depth = self._unary(), 0
        while (precedence := _PRECEDENCE.get(self._next.kind, 0)) >= least:
            operator = self._take()
            depth += 1
            if depth > _DEEPEST:
                self.too_deep()
                raise _Unreadable
            at = self._id(operator.offset)
            function = "@in" if operator.kind == "in" else f"_{operator.kind}_"
            left = Call(at, None, function, (left, self._binary(precedence + 1)))
        return left

    def _unary(self) -> Node:
        self._begin()
        sign = self._next
        if sign.kind == "!" or (sign.kind == "-" and self._after.kind not in ("NUM_INT", "NUM_FLOAT")):
            signs = 0
            while self._next.kind == sign.kind:
                self._take()
                signs += 1
            self._begin()
            at = self._id(sign.offset)
            operand = self._member()
            return operand if signs % 2 == 0 else Call(at, None, f"{sign.kind}_", (operand,))
        return self._member()

    def _member(self) -> Node:
        node, depth = self._primary(), 0
        while self._next.kind in (".", "["):
            depth += 1
            if depth > _DEEPEST:
                self.too_deep()
                raise _Unreadable
            node = self._selected(node) if self._next.kind == "." else self._indexed(node)
        return node

    def _selected(self, operand: Node) -> Node:
        dot = self._take()
        is_optional = self._optional()
        name = self._field_name(dot)
        if not name:
            return operand
        if self._next.kind == "(" and not is_optional:
            at = self._id(self._next.offset)
            return self._called(at, operand, name, self._arguments())
        at = self._id(dot.offset)
        if is_optional:
            return Call(at, None, "_?._", (operand, Constant(self._id(dot.offset), name)))
        return Select(at, operand, name, False)

    def _field_name(self, dot: _Token) -> str:
        token = self._next
        if token.kind == "IDENTIFIER":
            return self._take().text
        if token.kind == "ESC_IDENTIFIER":
            self.issues.append(SyntaxIssue(token.offset, "unsupported syntax: '`'"))
            return self._take().text
        if token.kind in ("true", "false", "null"):
            self._syntax(token.offset, f"mismatched input {_quoted(token)} expecting IDENTIFIER")
        else:
            said = "".join(text for offset, text in self._parts if dot.offset <= offset <= token.offset)
            self._syntax(token.offset, f"no viable alternative at input '{_printed(said)}'")
        while self._next.kind not in _AFTER:
            self._take()
        return ""

    def _indexed(self, operand: Node) -> Node:
        at = self._id(self._take().offset)
        self._begin("?")
        is_optional = self._optional()
        index = self._expression()
        self._expect("]", _AFTER)
        return Call(at, None, "_[?_]" if is_optional else "_[_]", (operand, index))

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        self._begin(")")
        found: list[Node] = []
        if self._next.kind != ")":
            found.append(self._expression())
            while self._next.kind == ",":
                self._take()
                found.append(self._expression())
        self._expect(")", _AFTER)
        return tuple(found)

    def _called(self, at: int, target: Node | None, name: str, arguments: tuple[Node, ...]) -> Node:
        macro = MACROS.get((name, target is not None, len(arguments)))
        if macro is None:
            return Call(at, target, name, arguments)
        try:
            expanded = macro(Builder(lambda: self._id(self.positions[at])), target, arguments)
        except MacroError as error:
            self.issues.append(SyntaxIssue(self.positions[error.node.id], str(error)))
            return Constant(at, None)
        return Call(at, target, name, arguments) if expanded is None else expanded

    def _primary(self) -> Node:
        self._begin()
        token = self._next
        if token.kind == "(":
            self._take()
            inner = self._expression()
            self._expect(")", _AFTER)
            return inner
        if token.kind == "[":
            return self._list()
        if token.kind == "{":
            return self._map()
        if token.kind in _LITERALS or token.kind == "-":
            return self._literal()
        return self._named()

    def _named(self) -> Node:
        first = self._next
        leading = self._take().text if first.kind == "." else ""
        if self._next.kind != "IDENTIFIER":
            raise self._mismatched("IDENTIFIER")
        token = self._take()
        if self._is_constructed():
            return self._object(leading + token.text)
        if token.text in _RESERVED:
            self.issues.append(SyntaxIssue(first.offset, f"reserved identifier: {token.text}"))
        name = leading + token.text
        if self._next.kind == "(":
            at = self._id(self._next.offset)
            return self._called(at, None, name, self._arguments())
        return Ident(self._id(token.offset), name)

    def _is_constructed(self) -> bool:
        """Return whether a type's name goes on to the braces of an object."""
        at = self._at
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == "IDENTIFIER":
            at += 2
        return self._tokens[at].kind == "{"

    def _object(self, name: str) -> Node:
        while self._next.kind == ".":
            self._take()
            name = f"{name}.{self._take().text}"
        at = self._id(self._take().offset)
        entries: list[Entry] = []
        self._one_of(frozenset({"}", ",", "?", "IDENTIFIER", "ESC_IDENTIFIER"}))
        while self._next.kind not in ("}", ","):
            is_optional = self._optional()
            field = self._expect("IDENTIFIER").text
            here = self._id(self._expect(":", _START).offset)
            entries.append(Entry(here, field, self._expression(), is_optional))
            if self._next.kind != ",":
                break
            self._take()
        self._close("}")
        return MapLiteral(at, name, tuple(entries))

    def _optional(self) -> bool:
        if self._next.kind != "?":
            return False
        self._take()
        return True

    def _goes_on(self) -> bool:
        """Read the comma before another item or entry; return whether there is one."""
        if self._next.kind != "," or self._after.kind not in _START | {"?"}:
            return False
        self._take()
        return True

    def _close(self, kind: str) -> None:
        """Read the end of a list or map, before which a comma may stand."""
        self._one_of(frozenset({",", kind}))
        if self._next.kind == ",":
            self._take()
        self._expect(kind, _AFTER)

    def _list(self) -> Node:
        at = self._id(self._take().offset)
        items: list[Node] = []
        optional: set[int] = set()
        self._begin("?", ",", "]")
        while self._next.kind not in ("]", ","):
            if self._optional():
                optional.add(len(items))
            items.append(self._expression())
            if not self._goes_on():
                break
        self._close("]")
        return ListLiteral(at, tuple(items), frozenset(optional))

    def _map(self) -> Node:
        at = self._id(self._take().offset)
        entries: list[Entry] = []
        self._begin("?", ",", "}")
        while self._next.kind not in ("}", ","):
            is_optional = self._optional()
            key = self._expression()
            here = self._id(self._expect(":", _START).offset)
            entries.append(Entry(here, key, self._expression(), is_optional))
            if not self._goes_on():
                break
        self._close("}")
        return MapLiteral(at, "", tuple(entries))

    def _literal(self) -> Node:
        first = self._next
        sign = self._take().text if first.kind == "-" else ""
        token = self._take()
        at = self._id(first.offset)
        try:
            return Constant(at, _VALUES[token.kind](sign + token.text))
        except ValueError as error:
            self.issues.append(SyntaxIssue(first.offset, str(error)))
            return Constant(at, None)


# What may stand after an operand.
_AFTER = frozenset({_END, ")", "]", "}", ",", ":", "?", ".", "[", "&&", "||", *_PRECEDENCE})


def _tree(function: str, parts: Sequence[Node], ids: Sequence[int]) -> Node:
    """Return a chain of operators as a tree that is as deep on both sides."""
    middle = len(ids) // 2
    left = parts[0] if middle == 0 else _tree(function, parts[: middle + 1], ids[:middle])
    last = middle == len(ids) - 1
    right = parts[-1] if last else _tree(function, parts[middle + 1 :], ids[middle + 1 :])
    return Call(ids[middle], None, function, (left, right))


def _quoted(token: _Token) -> str:
    return f"'{_printed(token.text)}'"


def _printed(text: str) -> str:
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def _named(kind: str) -> str:
    return kind if kind.isupper() or kind == _END else f"'{kind}'"


def _all_named(kinds: frozenset[str] | set[str]) -> str:
    return f"{{{', '.join(_named(kind) for kind in _ORDER if kind in kinds)}}}"


def _int(text: str) -> int:
    found = int(text, 16 if "0x" in text else 10)
    if not -(1 << _INT_BITS) <= found < 1 << _INT_BITS:
        raise ValueError("invalid int literal")
    return found


def _uint(text: str) -> Uint:
    found = int(text[:-1], 16 if "0x" in text else 10)
    if found >= 1 << _UINT_BITS:
        raise ValueError("invalid uint literal")
    return Uint(found)


def _float(text: str) -> float:
    found = float(text)
    if found in (float("inf"), -float("inf")):
        raise ValueError("invalid double literal")
    return found


def _contents(quoted: str) -> tuple[str, bool]:
    """Return what is between quotes, and whether it has escapes."""
    is_raw = quoted[0] in "rR"
    quoted = quoted.lstrip("rR")
    marks = 3 if quoted.startswith(("'''", '"""')) and len(quoted) >= 6 else 1
    inner = quoted[marks:-marks]
    return inner.replace("\r\n", "\n").replace("\r", "\n"), not is_raw


def _text(quoted: str) -> str:
    inner, has_escapes = _contents(quoted)
    return _ESCAPED.sub(lambda found: _character(found[0]), inner) if has_escapes else inner


def _character(escape: str) -> str:
    kind = escape[1]
    if kind in _CONTROLS:
        return _CONTROLS[kind]
    if kind in "xXuU":
        return _code_point(int(escape[2:], 16))
    return chr(int(escape[1:], 8)) if kind.isdigit() else kind


def _code_point(number: int) -> str:
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _bytes(quoted: str) -> bytes:
    inner, has_escapes = _contents(quoted[1:])
    if not has_escapes:
        return inner.encode()
    at = 0
    parts: list[bytes] = []
    for found in _ESCAPED.finditer(inner):
        character = _character(found[0])
        if found[0][1] in "uU":
            raise ValueError("unable to unescape string")
        is_byte = found[0][1] in "xX" or found[0][1].isdigit()
        parts += [inner[at : found.start()].encode(), bytes([ord(character)]) if is_byte else character.encode()]
        at = found.end()
    return b"".join([*parts, inner[at:].encode()])


_VALUES: Mapping[str, Callable[[str], Any]] = {
    "true": lambda _: True, "false": lambda _: False, "null": lambda _: None, "NUM_INT": _int, "NUM_UINT": _uint,
    "NUM_FLOAT": _float, "STRING": _text, "BYTES": _bytes,
}  # fmt: skip
