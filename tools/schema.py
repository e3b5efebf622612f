"""Write what kcr knows of Kubernetes' built-in types: `python -m tools.schema`.

The source is the OpenAPI document that Kubernetes publishes for each of its versions, as the package
`kubernetes-validate` ships it (`pip install -e '.[schema]'`). Facts are taken from it, and no prose: the names of types
and fields, their types, which fields are required, list types and the keys of their items, keys of strategic merge
patch. What kinds are called in paths comes from `tools.kinds`, because the document does not say; what Go's structs add
to it is in a table of its own, see `tools.struct_tags`. Types of stable versions are taken, those of gang scheduling,
and no lists of kinds, whose form is always the same.

The table is JSON with one line per type, so that a difference can be read. Its first line tells where it comes from,
and has the digest of the other lines. Behind the kinds and types of the oldest version that is served stand, below
`later`, those that differ in the next one: what is new or another, and null for what is gone. The same source gives
the same bytes. To go to another version of Kubernetes, change `VERSION` and `NEXT` here and the version of
`kubernetes-validate` in pyproject.toml, run the script, and read the diff.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import msgspec

from tools.kinds import KINDS

VERSION, NEXT = "1.36.0", "1.37.0"
TABLE = Path(__file__).parent.parent / "devcluster" / "kcr_devcluster" / "apiserver" / "schema" / "kubernetes.json"

_PACKAGE = "kubernetes-validate"
_FILE = "kubernetes-json-schema/v{}-local/_definitions.json"
_TAKEN = re.compile(r"\w+\.v\d+|scheduling\.v(1alpha2|1alpha3|1beta1)")
_SCALARS = {
    ("boolean", ""): "bool", ("integer", "int32"): "int32", ("integer", "int64"): "int64", ("integer", ""): "int64",
    ("number", "double"): "float64", ("string", ""): "string", ("string", "byte"): "bytes",
}  # fmt: skip
# Types that are no objects. All others without fields may be anything.
_NAMED = {
    "api.resource.Quantity": "quantity", "util.intstr.IntOrString": "int-or-string",
    "meta.v1.Time": "time", "meta.v1.MicroTime": "microtime",
}  # fmt: skip

Definitions = Mapping[str, Mapping[str, Any]]


def table(version: str = VERSION, later: str = NEXT) -> str:
    """Return the table's text, made of the installed package.

    Args:
        version: Which version of Kubernetes, such as `1.36.0`. The table of kcr has the default; others are for tests.
        later: The version whose differences follow.
    """
    definitions, source = _taken(version)
    kinds, types = _kinds(definitions), _types(definitions)
    atomic = _atomic(definitions)
    next_definitions, next_source = _taken(later)
    next_kinds, next_types = _kinds(next_definitions), _types(next_definitions)
    changed = {name: _changes(types.get(name, {}), fields) for name, fields in next_types.items()}
    rest = f',\n"atomic":{_text(atomic)},\n"kinds":{{\n{lines(kinds)}}},\n"types":{{\n{lines(types)}}},\n'
    rest += f'"later":{{"source":{_text(next_source)},"atomic":{_text(_atomic(next_definitions))},\n'
    rest += f'"kinds":{{\n{lines(_changes(kinds, next_kinds))}}},\n'
    rest += f'"types":{{\n{lines({name: fields for name, fields in changed.items() if fields})}}}}}}}\n'
    digest = hashlib.sha256(rest.encode()).hexdigest()
    return f'{{"source":{_text(source)},"sha256":"{digest}"{rest}'


def _taken(version: str) -> tuple[Definitions, Mapping[str, str]]:
    """Return the definitions of a version by their short names, and where they come from."""
    file = _FILE.format(version)
    raw = resources.files("kubernetes_validate").joinpath(file).read_bytes()
    package = f"{_PACKAGE} {metadata.version(_PACKAGE)}"
    digest = hashlib.sha256(raw).hexdigest()
    definitions = {
        _short(path): definition
        for path, definition in msgspec.json.decode(raw)["$defs"].items()
        if _is_taken(path, definition)
    }
    return definitions, {"kubernetes": version, "package": package, "file": file, "sha256": digest}


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    """Return the entries that are new or differ, and null for each that is gone."""
    return {name: new.get(name) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}


def _atomic(definitions: Definitions) -> list[str]:
    return sorted(name for name, one in definitions.items() if one.get("x-kubernetes-map-type") == "atomic")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def lines(entries: Mapping[str, object]) -> str:
    """Return the entries as JSON, sorted, one a line."""
    return ",\n".join(f"{_text(name)}:{_text(entries[name])}" for name in sorted(entries)) + "\n"


def _short(path: str) -> str:
    """Return `core.v1.Pod` for `io.k8s.api.core.v1.Pod`."""
    return ".".join(path.split(".")[-3:])


def _is_taken(path: str, definition: Mapping[str, Any]) -> bool:
    properties = definition.get("properties", {})
    is_list = path.endswith("List") and {"items", "metadata"} <= set(properties)
    return bool(properties) and not is_list and _TAKEN.fullmatch(_short(path).rpartition(".")[0]) is not None


def _kinds(definitions: Definitions) -> dict[str, object]:
    """Return what is known of each kind, by apiVersion and kind; types that are in many groups are kinds of none."""
    found: dict[str, object] = {}
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", ())
        if len(kinds) == 1 and _type(definition["properties"].get("metadata", {}), definitions) == "meta.v1.ObjectMeta":
            group, version = kinds[0]["group"], kinds[0]["version"]
            key = f"{group}/{version} {kinds[0]['kind']}" if group else f"{version} {kinds[0]['kind']}"
            found[key] = {"type": name, **KINDS[key]} if key in KINDS else name
    return found


def _types(definitions: Definitions) -> dict[str, dict[str, object]]:
    return {
        name: {field: _field(name, field, definitions) for field in sorted(definition["properties"])}
        for name, definition in definitions.items()
    }


def _field(owner: str, name: str, definitions: Definitions) -> object:
    """Return what is known of a field: its type alone, where there is nothing else to say."""
    given = definitions[owner]["properties"][name]
    facts = {"type": _type(given, definitions), **_facts(given)}
    if name in definitions[owner].get("required", ()):
        facts["required"] = True
    return facts["type"] if len(facts) == 1 else facts


def _facts(given: Mapping[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    # Where the document names none of these, a list is atomic and a map is not.
    if given.get("x-kubernetes-list-type", "atomic") != "atomic":
        found["listType"] = given["x-kubernetes-list-type"]
    if "x-kubernetes-list-map-keys" in given:
        found["listMapKeys"] = given["x-kubernetes-list-map-keys"]
    if given.get("x-kubernetes-map-type", "granular") != "granular":
        found["mapType"] = given["x-kubernetes-map-type"]
    if "merge" in given.get("x-kubernetes-patch-strategy", "").split(","):
        found["patchMergeKey"] = given.get("x-kubernetes-patch-merge-key", "")
    return found


def _type(given: Mapping[str, Any], definitions: Definitions) -> str:
    """Return a type as Go writes it: `string`, `[]core.v1.Container`, `map[string]quantity`."""
    if "$ref" in given:
        name = _short(given["$ref"].removeprefix("#/$defs/"))
        return _NAMED.get(name) or (name if name in definitions else "any")
    stated = given.get("type", ())
    form = next((one for one in ([stated] if isinstance(stated, str) else stated) if one != "null"), "")
    if form == "array":
        return f"[]{_type(given['items'], definitions)}"
    if form == "object" and "additionalProperties" in given:
        return f"map[string]{_type(given['additionalProperties'], definitions)}"
    return _SCALARS.get((form, given.get("format", "")), "any")


if __name__ == "__main__":
    made = table()
    TABLE.write_text(made)
    sys.stdout.write(f"{TABLE}: {len(made)} bytes\n")
