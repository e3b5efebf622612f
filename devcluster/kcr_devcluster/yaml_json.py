"""YAML as the JSON values that it stands for, within bounds: a small text cannot become a large value.

Aliases and merge keys repeat the nodes that they name, and aliases of aliases do so exponentially. Values are therefore
counted as they are in JSON, and nesting is counted while a text is read.

Source: sigs.k8s.io/yaml, YAMLToJSON; go.yaml.in/yaml/v2, decode.go, which bounds aliases by their share of a document.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

# Nodes that aliases and merge keys may add to a document.
_MAX_REPEATED = 50_000
# Characters that they may add.
_MAX_REPEATED_CHARACTERS = 3 * 1024 * 1024
# PyYAML needs quadratic time for nested flow collections, and several frames of the stack for each level.
_MAX_DEPTH = 200
_MAX_NUMBER = 400
# Values that are text here: times, and a lone `=`.
_TEXTS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
_MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """A text is no YAML, or no value of JSON; the message says where, if that is known."""


class _Loader(yaml.SafeLoader):
    """Loads YAML as Kubernetes reads it: times stay text."""

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._depth = 0
        self._merged: dict[int, yaml.MappingNode] = {}
        self._repeated = 0

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - PyYAML's name
        _check_depth(self.flow_level)
        super().fetch_flow_collection_start(TokenClass)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        _check_depth(self._depth)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged members before those of the mapping itself, which win. Each mapping is flattened once."""
        if id(node) in self._merged:
            return
        self._merged[id(node)] = node
        merged: list[Any] = []
        own: list[Any] = []
        for key, value in node.value:
            if key.tag != _MERGE:
                own.append((key, value))
                continue
            sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for source in reversed(sources):
                if not isinstance(source, yaml.MappingNode):
                    raise YamlError("yaml: map merge requires map or sequence of maps as the value")
                self.flatten_mapping(source)
                self._repeated += len(source.value)
                if self._repeated > _MAX_REPEATED:
                    raise YamlError("yaml: document contains excessive aliasing")
                merged += source.value
        node.value = merged + own

    def construct_scalar(self, node: Any) -> Any:
        if node.tag.endswith((":int", ":float")) and len(node.value) > _MAX_NUMBER:
            # Of base 60, they take quadratic time.
            raise YamlError(f"yaml: a number of {len(node.value)} characters is too long")
        return super().construct_scalar(node)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXTS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise YamlError("yaml: exceeded max depth")


def load_yaml(text: str | bytes) -> Any:
    """Return the value of a text that holds one document.

    Raises:
        YamlError: It cannot be read.
    """
    documents = list(load_yaml_documents(text))
    if len(documents) > 1:
        raise YamlError("yaml: expected a single document in the stream")
    return documents[0] if documents else None


def load_yaml_documents(text: str | bytes) -> Iterator[Any]:
    """Yield the values of the documents in a text.

    Raises:
        YamlError: One cannot be read; those before it have been yielded.
    """
    try:
        loader = _Loader(text)
        while loader.check_data():  # type: ignore[no-untyped-call]  # PyYAML's
            yield _Values(len(text)).convert(loader.get_data())
    except YamlError:
        raise
    except yaml.YAMLError as error:
        raise YamlError(_described(error)) from None
    except RecursionError:
        raise YamlError("yaml: exceeded max depth") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # PyYAML's own constructors, on `!!int x` and the like.
        raise YamlError("yaml: a value does not have the type of its tag") from None


def repeated_keys(text: str | bytes) -> list[tuple[int, str]]:
    """Return the names that a mapping of any document has twice, each with its line, in the order of the text.

    Raises:
        YamlError: The text cannot be read.
    """
    found: list[tuple[int, str]] = []
    seen: set[int] = set()
    nodes: list[Any] = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            nodes.append(loader.get_node())
    except yaml.YAMLError as error:
        raise YamlError(_described(error)) from None
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names = [(key.start_mark.line + 1, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            known: set[str] = set()
            for line, name in names:
                if name in known and name != "<<":
                    found.append((line, name))
                known.add(name)
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return sorted(found)


class _Values:
    """Converts values of PyYAML to JSON; each repetition of an alias counts."""

    def __init__(self, characters: int) -> None:
        """Start to count, for a text of so many characters."""
        self._seen: set[int] = set()
        self._repeated = 0
        self._characters_left = characters + _MAX_REPEATED_CHARACTERS

    def convert(self, value: Any) -> Any:
        """Return a value of YAML as JSON would have it: names are text, and numbers are numbers.

        Raises:
            YamlError: JSON has no such value, or it repeats too much.
        """
        match value:
            case dict():
                self._count(value)
                return {self._text(_name(key)): self.convert(one) for key, one in value.items()}
            case list():
                self._count(value)
                return [self.convert(one) for one in value]
            case float() if not math.isfinite(value):
                raise YamlError(f"json: unsupported value: {value}")
            case str():
                return self._text(value)
            case None | bool() | int() | float():
                return value
        raise YamlError(f"json: unsupported type: {type(value).__name__}")

    def _count(self, value: dict[Any, Any] | list[Any]) -> None:
        # An alias of nothing is something all the same.
        self._repeated += len(value) + 1 if id(value) in self._seen else 0
        self._seen.add(id(value))
        if self._repeated > _MAX_REPEATED:
            raise YamlError("yaml: document contains excessive aliasing")

    def _text(self, value: str) -> str:
        """Return a text without surrogates, which no encoding knows."""
        self._characters_left -= len(value)
        if self._characters_left < 0:
            raise YamlError("yaml: document contains excessive aliasing")
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _name(key: object) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return msgspec.json.encode(key).decode()
    raise YamlError(f"unsupported map key: {key}")


def _described(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    return f"yaml: {where}{getattr(error, 'problem', None) or ' '.join(str(error).split())}"
