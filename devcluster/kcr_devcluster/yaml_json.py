"""YAML as the JSON values that it stands for: the one reader of manifests and of request bodies.

Plain scalars mean what Kubernetes' reader takes them for: `y` and `off` are booleans, `1e3`, `08` and `0o17` numbers,
and `12:30` and times text. A small text cannot become a large value: aliases and merge keys repeat the nodes that they
name, and aliases of aliases do so exponentially, so nodes are counted as they are in JSON.

Source: sigs.k8s.io/yaml, YAMLToJSON; go.yaml.in/yaml/v2, resolve.go and decode.go, which bounds aliases by their share
of a document; Go's strconv, ParseInt and ParseFloat.
"""

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from math import copysign, inf, isfinite
from typing import Any, NamedTuple

import msgspec
import yaml
from yaml.composer import ComposerError
from yaml.parser import ParserError
from yaml.scanner import ScannerError

from kcr_devcluster.go_numbers import as_go_writes, shortest_text

# Nodes that aliases and merge keys may add to a document.
_MAX_REPEATED = 50_000
# Characters that they may add.
_MAX_REPEATED_CHARACTERS = 3 * 1024 * 1024
# PyYAML needs quadratic time for nested flow collections, and several frames of the stack for each level.
_MAX_DEPTH = 200
_TAG = "tag:yaml.org,2002:"
_PLAIN = ""
_STR, _BINARY, _MERGE, _TIME = f"{_TAG}str", f"{_TAG}binary", f"{_TAG}merge", f"{_TAG}timestamp"
_NULL, _BOOL, _INT, _FLOAT = f"{_TAG}null", f"{_TAG}bool", f"{_TAG}int", f"{_TAG}float"
_WORDS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), (_BOOL, True)),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), (_BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (_NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (_FLOAT, float("nan"))),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), (_FLOAT, float("inf"))),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (_FLOAT, float("-inf"))),
}
_NUMERIC = frozenset("+-0123456789")
# Signs may follow `0b`, for there the reader tries twice.
_INTEGERS = (
    (re.compile(r"([-+]?)(0|[1-9][0-9]*)"), 10), (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8), (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"0b([-+]?)([01]+)"), 2),
)  # fmt: skip
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TIME_TEXT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:(?P<space> +)|[Tt])([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?"
    r"(?(space)|(?:Z|[-+]([01][0-9]|2[0-4]):(?:[0-5][0-9]|60))))?"
)
_BETWEEN_DIGITS = re.compile("(?<=[0-9])_(?=[0-9])")
_NAME = re.compile("[0-9A-Za-z_-]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Our parser's problems, and what upstream's says of them.
_PROBLEMS = tuple((re.compile(said, re.DOTALL), words) for said, words in (
    ("(mapping (?:values|keys)) are not allowed here", r"\1 are not allowed in this context"),
    ("sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
    ("found character .* that cannot start any token", "found character that cannot start any token"),
    ("found unknown escape character .*", "found unknown escape character"),
    ("found undefined tag handle .*", "found undefined tag handle"),
    ("found undefined alias (.*)", r"unknown anchor \1 referenced"),
    ("expected ('.' or '.'), but got .*", r"did not find expected \1"),
    ("expected '>', but found .*", "did not find the expected '>'"),
    ("expected the node content, but found .*", "did not find expected node content"),
    ("expected URI, but found .*", "did not find expected tag URI"),
    ("expected escape sequence of .*", "did not find expected hexdecimal number"),
    ("expected chomping or indentation indicators, but found .*", "did not find expected comment or line break"),
    ("expected a comment or a line break, but found .*", "did not find expected comment or line break"),
    ("expected indentation indicator in the range .*", "found an indentation indicator equal to 0"),
    ("expected ' ', but found .*", "did not find expected whitespace or line break"),
    ("expected '?<document start>'?, but found .*", "did not find expected <document start>"),
    ("expected (alphabetic or numeric character), but found .*", r"did not find expected \1"),
    ("found unexpected document separator", "found unexpected document indicator"),
    ("unacceptable character .* special characters are not allowed.*", "control characters are not allowed"),
    ("unacceptable character .*", "invalid UTF-8 octet sequence"),
))  # fmt: skip


_ESCAPES = {name: text for name, text in yaml.SafeLoader.ESCAPE_REPLACEMENTS.items() if name != "/"}
_BLANKS, _BREAKS = (" ", "\t"), ("\r", "\n", "\x85", "\u2028", "\u2029")


class YamlError(ValueError):
    """A text is neither YAML nor JSON; the message is the API server's.

    Attributes:
        in_file: What is wrong and the line of it; the API server's lines are near it only.
    """

    def __init__(self, message: str, in_file: str = "") -> None:
        super().__init__(message)
        self.in_file = in_file or message.removeprefix("yaml: ")


class _Loader(yaml.BaseLoader):
    """Composes nodes; what they mean is left to `_Values`.

    Attributes:
        names: The anchors of nodes, by their identity.
    """

    # Upstream's reader knows no `\/`.
    ESCAPE_REPLACEMENTS = _ESCAPES  # type: ignore[misc]  # the types of PyYAML say that nobody replaces it

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._depth = 0
        self.names: dict[int, str] = {}

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - PyYAML's name
        _check_depth(self.flow_level)
        super().fetch_flow_collection_start(TokenClass)

    def scan_to_next_token(self) -> None:
        """Pass over tabs as well, but where they would indent."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        """Take tabs for blanks, which end a text or are part of it."""
        length = 0
        while self.peek(length) in _BLANKS:
            length += 1
        blanks = self.prefix(length)
        if "\t" in blanks:
            self.forward(length)
            if self.peek() not in _BREAKS:
                return [blanks]
        found = super().scan_plain_spaces(indent, start_mark)
        while self.peek() in _BLANKS:
            if self.peek() == "\t" and self.column < indent:
                words = "found a tab character that violates indentation"
                raise ScannerError(None, None, words, self.get_mark())
            self.forward()
        return found

    def scan_plain(self) -> Any:
        """Scan a text; a colon before an indicator is part of it."""
        token = super().scan_plain()
        if self.flow_level and self.index == token.end_mark.index and self.peek() == ":" and self.peek(1) in ",[]{}":
            self.forward()
            token.value += ":"
            self.allow_simple_key = False
        return token

    def scan_block_scalar_indentation(self) -> Any:
        found = super().scan_block_scalar_indentation()
        self._refuse_tab()
        return found

    def scan_block_scalar_breaks(self, indent: int) -> Any:
        found = super().scan_block_scalar_breaks(indent)
        if self.column < indent:
            self._refuse_tab()
        return found

    def _refuse_tab(self) -> None:
        if self.peek() == "\t":
            words = "found a tab character where an indentation space is expected"
            raise ScannerError(None, None, words, self.get_mark())

    def scan_directive_name(self, start_mark: Any) -> Any:
        length = 0
        while _NAME.fullmatch(self.peek(length)):
            length += 1
        name, words = self.prefix(length), ""
        if not name:
            words = "could not find expected directive name"
        elif self.peek(length) not in "\0 \t\r\n\x85\u2028\u2029":
            words = "found unexpected non-alphabetical character"
        elif name not in ("YAML", "TAG"):
            words = "found unknown directive name"
        if words:
            raise ScannerError(None, None, words, self.get_mark())
        self.forward(length)
        return name

    def scan_yaml_directive_value(self, start_mark: Any) -> Any:
        version = super().scan_yaml_directive_value(start_mark)
        if version != (1, 1):
            raise ParserError(None, None, "found incompatible YAML document", start_mark)
        return version

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        _check_depth(self._depth)
        try:
            event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's
            anchor = None if isinstance(event, yaml.AliasEvent) else event.anchor
            # An anchor may be given twice, and the last one counts.
            self.anchors.pop(anchor, None)
            if isinstance(event, yaml.ScalarEvent) and event.tag == "!":
                event.tag = _STR
            node = super().compose_node(parent, index)
        finally:
            self._depth -= 1
        if anchor is not None:
            self.names[id(node)] = anchor
        return node

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _STR


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise YamlError("yaml: exceeded max depth")


def load_yaml(text: str | bytes) -> Any:
    """Return the value of the first document of a text, None where there is none; the rest is not read.

    Raises:
        YamlError: It cannot be read.
    """
    return next(load_yaml_documents(text), None)


def load_yaml_documents(text: str | bytes) -> Iterator[Any]:
    """Yield the values of the documents in a text.

    Raises:
        YamlError: One cannot be read; those before it have been yielded.
    """
    for values, node in _documents(text):
        yield values.convert(node)


class Manifests(NamedTuple):
    """The documents of a text.

    Attributes:
        values: Their values.
        repeated_keys: The keys that a mapping has twice with their lines, in the order of the text; names are quoted.
    """

    values: list[Any]
    repeated_keys: list[tuple[int, str]]


def load_manifests(text: str | bytes) -> Manifests:
    """Return the documents of a text, all of them.

    Raises:
        YamlError: One cannot be read.
    """
    found = [(values.convert(node), values.repeated_keys) for values, node in _documents(text)]
    return Manifests([value for value, _ in found], sorted(key for _, keys in found for key in keys))


def key_errors(body: str | bytes) -> list[str]:
    """Return what a strict decoder says of keys that a request has twice, a line each; its first document counts."""
    values, node = next(_documents(body), (None, None))
    if values is None:
        return []
    values.convert(node)
    return [f"line {line}: key {key} already set in map" for line, key in sorted(values.repeated_keys)]


def _documents(text: str | bytes) -> Iterator[tuple["_Values", yaml.Node]]:
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # there is one
            yield _Values(len(text), loader.names), node
    except yaml.YAMLError as error:
        raise _described(error) from None
    except RecursionError:
        raise YamlError("yaml: exceeded max depth") from None


class _Values:
    """Converts the nodes of a document to JSON; each repetition of an alias counts.

    Attributes:
        repeated_keys: The lines of names that are in a mapping already, and the names.
    """

    def __init__(self, characters: int, anchors: dict[int, str]) -> None:
        """Start to count, for a text of so many characters with such anchors."""
        self.repeated_keys: list[tuple[int, str]] = []
        self._anchors = anchors
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._repeated = 0
        self._characters_left = characters + _MAX_REPEATED_CHARACTERS

    def convert(self, node: Any) -> Any:
        """Return the value of a node as JSON would have it: names are text, and numbers are numbers.

        Raises:
            YamlError: JSON has no such value, or it repeats too much.
        """
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise YamlError(f"yaml: anchor '{self._anchors.get(id(node), '')}' value contains itself")
        # An alias of nothing is something all the same.
        self._repeated += len(node.value) + 1 if id(node) in self._seen else 0
        if self._repeated > _MAX_REPEATED:
            raise YamlError("yaml: document contains excessive aliasing")
        self._seen.add(id(node))
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            value: Any = self._mapping(node)
        else:
            value = [self.convert(one) for one in node.value]
        self._open.discard(id(node))
        return value

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        made: dict[str, Any] = {}
        own: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in (_PLAIN, _MERGE):
                made |= self._merged(value)
                continue
            name = self._name(key, value)
            if name in own:
                shown = name if key.tag == _PLAIN and _resolve(key.value)[0] != _STR else f'"{name}"'
                self.repeated_keys.append((key.start_mark.line + 1, shown))
            own.add(name)
            made[name] = self.convert(value)
        return made

    def _merged(self, node: Any) -> dict[str, Any]:
        """Return the members that a merge key adds: of several sources, the first that has one."""
        made: dict[str, Any] = {}
        for source in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            made |= self.convert(source)
        return made

    def _name(self, key: Any, value: Any) -> str:
        if not isinstance(key, yaml.ScalarNode):
            raise YamlError(f"yaml: invalid map key: {_in_go(self.convert(key))}")
        match self._resolved(key):
            case str(name):
                return self._text(name, key)
            case bool(name):
                return "true" if name else "false"
            case int(name) if name < 2**63:
                return str(name)
            case float(name):
                return _number_name(name)
            case other:
                kind, shown = ("%!s(<nil>)", "<nil>") if other is None else ("uint64", hex(other))
                shown_value = _in_go(self.convert(value))
                raise YamlError(f"unsupported map key of type: {kind}, key: {shown}, value: {shown_value}")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        value = self._resolved(node)
        if isinstance(value, str):
            return self._text(value, node)
        if isinstance(value, float):
            if not isfinite(value):
                raise YamlError(
                    f"json: unsupported value: {'NaN' if value != value else '+Inf' if value > 0 else '-Inf'}"
                )
            return as_go_writes(value)
        return as_go_writes(float(value)) if type(value) is int and value >= 2**63 else value

    def _resolved(self, node: yaml.ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag == _PLAIN:
            return _resolve(text)[1]
        if tag == _BINARY:
            return _decoded(text)
        if tag not in (_NULL, _BOOL, _INT, _FLOAT, _TIME):
            return text
        found, value = (_TIME, text) if tag == _TIME and _is_time(text) else _resolve(text)
        if tag == _FLOAT and found == _INT:
            return float(value)
        if tag != found:
            names = (one.replace(_TAG, "!!") for one in (found, tag))
            raise YamlError(f"yaml: cannot decode {next(names)} `{text}` as a {next(names)}")
        return value

    def _text(self, text: str, node: yaml.ScalarNode) -> str:
        self._characters_left -= len(text)
        if self._characters_left < 0:
            raise YamlError("yaml: document contains excessive aliasing")
        if not text.isascii() and _SURROGATE.search(text):
            raise YamlError(f"yaml: line {node.start_mark.line + 1}: found invalid Unicode character escape code")
        return text


def is_plain_text(text: str) -> bool:
    """Return whether a plain scalar is text: no number, boolean or null, and no time either."""
    return _resolve(text)[0] == _STR and not _is_time(text)


def _is_time(text: str) -> bool:
    """Return whether a text is a time.

    Source: go.yaml.in/yaml/v2, parseTimestamp; Go's time.Parse.
    """
    found = _TIME_TEXT.fullmatch(text)
    if found is None:
        return False
    year, month, day, hour, minute, second = (int(found[part] or 0) for part in (1, 2, 3, 5, 6, 7))
    try:
        # Go knows a year 0, which is a leap year.
        datetime(year or 4, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _resolve(text: str) -> tuple[str, Any]:
    """Return the tag and the value of a plain scalar."""
    known = _WORDS.get(text)
    if known is not None:
        return known
    first = text[0]
    if first in _NUMERIC:
        number = text.replace("_", "")
        for pattern, base in _INTEGERS:
            # More digits are no integer of 64 bits, whatever the base.
            if (found := pattern.fullmatch(number)) and len(digits := found[2].lstrip("0")) <= 64:
                made = int(f"{found[1]}{digits or 0}", base)
                if -(2**63) <= made < (2**63 if found[1] else 2**64):
                    return _INT, made
    elif first == ".":
        number = _BETWEEN_DIGITS.sub("", text)
    else:
        return _STR, text
    if _FRACTION.fullmatch(number) and isfinite(value := float(number)):
        return _FLOAT, value
    return _STR, text


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(re.sub("[\r\n]", "", text), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from None


def _number_name(number: float) -> str:
    """Return the name that a number is as a key: the shortest that means it with 32 bits.

    Source: sigs.k8s.io/yaml, convertToJSONableObject; Go's strconv.FormatFloat with the form 'g'.
    """
    try:
        near = struct.pack("f", number)
    except OverflowError:  # since Python 3.14
        near = struct.pack("f", copysign(inf, number))
    (near_number,) = struct.unpack("f", near)
    if not isfinite(near_number):
        return ".nan" if number != number else "-.inf" if number < 0 else ".inf"
    shortest = (text for digits in range(9) if struct.pack("f", float(text := f"{near_number:.{digits}e}")) == near)
    return shortest_text(next(shortest))


def _described(error: yaml.YAMLError) -> YamlError:
    """Return what is wrong in upstream's words, with the line where upstream knows one.

    Source: go.yaml.in/yaml/v2, decode.go, fail: the first line has no number, and parsers count from zero.
    """
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    if str(problem).startswith("expected <block end>"):
        in_list = "block collection" in str(getattr(error, "context", ""))
        problem = "did not find expected " + ("'-' indicator" if in_list else "key")
    for said, words in _PROBLEMS:
        if found := said.fullmatch(problem):
            problem = found.expand(words)
            break
    if mark is None:
        return YamlError(f"yaml: {problem}")
    line = 0 if isinstance(error, ComposerError) else mark.line
    if isinstance(error, ParserError) and mark.column and mark.buffer[mark.pointer] == "\0":
        # What is missing at the end is missing from the line behind it.
        line += 1
    where = f"line {line + isinstance(error, ScannerError)}: " if line else ""
    return YamlError(f"yaml: {where}{problem}", f"line {mark.line + 1}: {problem}")


def _in_go(value: Any) -> str:
    """Return a value as Go's `%#v` shows it."""
    if isinstance(value, dict):
        members = ", ".join(f"{_in_go(name)}:{_in_go(value[name])}" for name in sorted(value))
        return f"map[interface {{}}]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_in_go, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return msgspec.json.encode(value).decode()
