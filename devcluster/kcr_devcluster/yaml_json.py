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
from decimal import Decimal
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import yaml

from kcr_devcluster.go_numbers import as_go_writes

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
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?.*)?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXPONENT_AT = 6
# Our parser's problems, and what upstream's says of them.
_PROBLEMS = tuple((re.compile(said, re.DOTALL), words) for said, words in (
    ("(mapping (?:values|keys)) are not allowed here", r"\1 are not allowed in this context"),
    ("sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
    ("found character .* that cannot start any token", "found character that cannot start any token"),
    ("found unknown escape character .*", "found unknown escape character"),
    ("found undefined alias (.*)", r"unknown anchor \1 referenced"),
    ("expected ('.' or '.'), but got .*", r"did not find expected \1"),
    ("expected '>', but found .*", "did not find the expected '>'"),
    ("expected the node content, but found .*", "did not find expected node content"),
    ("expected URI, but found .*", "did not find expected tag URI"),
    ("expected escape sequence of .*", "did not find expected hexadecimal number"),
    ("expected '?<document start>'?, but found .*", "did not find expected <document start>"),
    ("expected (alphabetic or numeric character), but found .*", r"did not find expected \1"),
    ("found unexpected document separator", "found unexpected document indicator"),
    ("unacceptable character .* special characters are not allowed.*", "control characters are not allowed"),
    ("unacceptable character .*", "invalid UTF-8 octet sequence"),
))  # fmt: skip


_ESCAPES = {name: text for name, text in yaml.SafeLoader.ESCAPE_REPLACEMENTS.items() if name != "/"}
_BLANKS, _BREAKS = (" ", "\t"), ("\r", "\n", "\x85", "\u2028", "\u2029")


class YamlError(ValueError):
    """A text is no YAML, or no value of JSON; the message says where, if that is known."""


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
                raise yaml.MarkedYAMLError(None, None, words, self.get_mark())
            self.forward()
        return found

    def scan_yaml_directive_value(self, start_mark: Any) -> Any:
        version = super().scan_yaml_directive_value(start_mark)
        if version != (1, 1):
            raise yaml.MarkedYAMLError(None, None, "found incompatible YAML document", start_mark)
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
        raise YamlError(_described(error)) from None
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
            shown = msgspec.json.encode(self.convert(key)).decode()
            raise YamlError(f"yaml: invalid map key: {shown}")
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
                value = msgspec.json.encode(self.convert(value)).decode()
                raise YamlError(f"unsupported map key of type: {kind}, key: {shown}, value: {value}")

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
        found, value = (_TIME, text) if tag == _TIME and _DATE.fullmatch(text) else _resolve(text)
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
        number = text
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
    near = struct.pack("f", number)
    (near_number,) = struct.unpack("f", near)
    if not isfinite(near_number):
        return ".nan" if number != number else "-.inf" if number < 0 else ".inf"
    shortest = (text for digits in range(9) if struct.pack("f", float(text := f"{near_number:.{digits}e}")) == near)
    mantissa, _, exponent = next(shortest).partition("e")
    if -4 <= int(exponent) < _EXPONENT_AT:
        return format(Decimal(f"{mantissa}e{exponent}"), "f")
    return f"{mantissa}e{exponent}"


def _described(error: yaml.YAMLError) -> str:
    """Return what is wrong in upstream's words, with the line; there are none for characters that no text may have."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    if str(problem).startswith("expected <block end>"):
        in_list = "block collection" in str(getattr(error, "context", ""))
        problem = "did not find expected " + ("'-' indicator" if in_list else "key")
    for said, words in _PROBLEMS:
        if found := said.fullmatch(problem):
            problem = found.expand(words)
            break
    return f"yaml: line {mark.line + 1}: {problem}" if mark else f"yaml: {problem}"
