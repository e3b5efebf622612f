"""Write what the tags of Kubernetes' Go structs say: `python -m tools.struct_tags k8s.io/api …`.

The arguments are checkouts of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver, at the version that
`tools.schema` takes its schema from, then `--later` and those of the next version. Three facts per field are taken,
which the published schema does not have:

- the number that the field has in protobuf. Those of embedded structs, whose members JSON shows beside the others, are
  written with the number of the struct: `configMap:2.19`; its own name, which errors of the decoder show, is in an
  entry without a field: `:2=VolumeSource`;
- which zero value is not stored. Go leaves `""`, `0` and `false` out of JSON where a field holds them by value and is
  tagged `omitempty` (`?` here); where it holds a pointer, they are kept. A time that is held by value is written as
  null when it is not set (`!` here), unless it is tagged `omitzero`;
- the Go type where texts, or lists and maps of scalars, have one with a name, which errors of the decoder show:
  `type:4=v1.ServiceType`.

Types and fields are those of the published schema; the table has one line per type, and its first line tells where it
comes from. The fields that are new or another in the next version stand below `later`.

Source: types.go, types_jsonschema.go and group_version.go in the three repositories.
"""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tools.schema import NEXT, TABLE, VERSION, lines

TAGS = TABLE.with_name("struct_tags.json")

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s+(?:\w+\s+)??(\S+)\s+`json:\"([^\",]*)([^\"]*)\"[^`]* protobuf:\"\w+,(\d+),", re.MULTILINE)
_SCALARS = ("bool", "bytes", "float64", "int32", "int64", "string")
_TIMES = ("time", "microtime")
_CONTAINERS = ("[]", "map[")
# The packages of types with a name, where the alias is not that of a version such as `metav1`.
_VERSION = re.compile(r".*?(v[0-9]\w*)")
_OWN = re.compile(r"\[([A-Z]\w*)\]")
_NAMED = re.compile(r"((?:\[\]|map\[\w+\])*)(?:(\w+)\.)?([A-Z]\w*)")

Types = Mapping[str, Mapping[str, Any]]


class _Tags(NamedTuple):
    """One field of a struct: its Go type, its name in JSON, the options behind that, and its protobuf number."""

    type: str
    name: str
    options: str
    number: str


def struct_tags(folders: list[Path], later: list[Path]) -> str:
    """Return the table's text, made of the Go sources below the folders.

    Args:
        folders: The checkouts.
        later: Those of the next version.
    """
    known = msgspec.json.decode(TABLE.read_bytes())
    entries = _table(known["types"], folders)
    changed = {
        name: {field: one for field, one in facts.items() if one is not None}
        for name, facts in known["later"]["types"].items()
    }
    next_entries = _table(changed, later)
    rest = ',\n"types":{\n' + lines(entries) + '},\n"later":{\n' + lines(next_entries) + "}}\n"
    digest = hashlib.sha256(rest.encode()).hexdigest()
    return f'{{"source":{{"kubernetes":"{VERSION}","later":"{NEXT}"}},"sha256":"{digest}"{rest}'


def _table(types: Types, folders: list[Path]) -> dict[str, str]:
    structs = {name: fields for folder in folders for name, fields in _structs(folder)}
    found = {name: " ".join(_entries(name, "", structs, types[name])) for name in types if name in structs}
    return {name: text for name, text in found.items() if text}


def _structs(folder: Path) -> Iterator[tuple[str, list[_Tags]]]:
    """Yield the structs of all stable packages by the names of the published schema, such as `core.v1.Pod`."""
    for path in sorted((*folder.rglob("types*.go"), *folder.rglob("group_version.go"))):
        package = ".".join(path.parent.parts[-2:])
        for name, body in _STRUCT.findall(path.read_text()):
            yield f"{package}.{name}", [_Tags(*found) for found in _FIELD.findall(body)]


def _entries(name: str, outer: str, structs: Mapping[str, list[_Tags]], fields: Mapping[str, Any]) -> Iterator[str]:
    for tags in structs[name]:
        if tags.name in fields:
            facts = fields[tags.name]
            kind = facts if isinstance(facts, str) else facts["type"]
            yield f"{tags.name}:{outer}{tags.number}{_zero(tags, kind)}{_named(tags.type, kind, name)}"
        elif not tags.name:
            embedded = f"{name.rpartition('.')[0]}.{tags.type}"
            yield f":{outer}{tags.number}={tags.type.rpartition('.')[2]}"
            yield from _entries(embedded, f"{outer}{tags.number}.", structs, fields)


def _named(written: str, kind: str, owner: str) -> str:
    """Return the Go type of a field of a struct, where it or that of its items has a name, and is no struct."""
    found = _NAMED.fullmatch(written.removeprefix("*"))
    is_text = kind.replace("[]", "").replace("map[string]", "") == "string"
    if found is None or not (is_text or (kind.startswith(_CONTAINERS) and not found[1])):
        return ""
    own = owner.split(".")[1]
    version = _VERSION.fullmatch(found[2] or own)
    outer = _OWN.sub(rf"[{own}.\1]", found[1])
    return f"={outer}{version[1] if version else found[2]}.{found[3]}"


def _zero(tags: _Tags, kind: str) -> str:
    if tags.type.startswith("*"):
        return ""
    if kind in _TIMES:
        return "" if "omitzero" in tags.options else "!"
    return "?" if kind in _SCALARS and "omitempty" in tags.options else ""


if __name__ == "__main__":
    here = sys.argv.index("--later")
    made = struct_tags([Path(one) for one in sys.argv[1:here]], [Path(one) for one in sys.argv[here + 1 :]])
    TAGS.write_text(made)
    sys.stdout.write(f"{TAGS}: {len(made)} bytes\n")
