"""Values of built-in types as Go's internal structs show them: all fields, named and ordered as in Go.

The table is `go_structs.json`, which `python -m tools.go_structs` makes. Types that are not in it, those of meta/v1,
show the fields that are set, named as in JSON, in the order of their struct.

Source: kubernetes/pkg/apis/*/types.go; Go's encoding/json.
"""

import json
import re
from collections.abc import Mapping
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kcr_devcluster.apiserver.protocol.gojson import encode_json, escaped
from kcr_devcluster.apiserver.schema.builtin import LIST, MAP, FieldFacts, struct_order, type_facts

_STEP = re.compile(r"\[[^\]]*\]|[^.\[\]]+")
_ZEROS: Mapping[str, Any] = {"": None, "s": "", "i": 0, "b": False, "q": "0"}
_POD = "core.v1.PodSpec"
# Structs that have no type in the schema, by the type that has their fields.
_EMBEDDED: Mapping[str, str] = {"core.v1.PersistentVolumeSource": "core.v1.PersistentVolumeSpec"}
# Fields of a pod that Go keeps in the context of its security.
_MOVED = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


class _Table(msgspec.Struct, frozen=True):
    """The table: per type its fields, see `tools.go_structs`."""

    types: Mapping[str, str]


@cache
def _table() -> Mapping[str, str]:
    text = Path(__file__).with_name("go_structs.json").read_bytes()
    return msgspec.json.decode(text, type=_Table).types


def as_go(of: str, path: str, value: Any) -> msgspec.Raw:
    """Return a list or an object as a message about it shows it, in JSON.

    Args:
        of: The type of the whole object.
        path: The path in the message, such as `spec.ports[1]`; perhaps that of a field of the value.
        value: The value.
    """
    return msgspec.Raw(encode_json(go_value(_type_at(of, path, value), value)))


def difference(of: str, old: Any, new: Any) -> str:
    """Return the lines in which two values differ as Go shows them, with some around them."""
    before, after = (_lines(of, one) for one in (old, new))
    return "".join(list(unified_diff(before, after))[2:])


def _lines(of: str, value: Any) -> list[str]:
    text = json.dumps(go_value(of, value), indent=1, ensure_ascii=False)
    return f"{escaped(text.encode()).decode()}\n".splitlines(keepends=True)


def go_value(written: str, value: Any) -> Any:
    """Return a value as Go's encoder shows it.

    Args:
        written: Its type, such as `core.v1.Container`, `[]string` or `map[string]quantity`.
        value: The value as the API writes it.
    """
    if type(value) is list:
        item = written.removeprefix(LIST)
        return [go_value(item, one) for one in value]
    if type(value) is not dict:
        return value
    if written.startswith(MAP):
        return {key: go_value(written.removeprefix(MAP), value[key]) for key in sorted(value)}
    facts = _facts(written)
    if facts is None:
        return {key: go_value("", value[key]) for key in sorted(value)}
    if (fields := _table().get(written)) is None:
        # Of references the table has all but what other objects have in their envelopes.
        always = {name for name, one in facts.items() if one.required and one.type == "string"}
        order = [name for name in ("apiVersion", "kind", *struct_order(written)) if name in value or name in always]
        types = {name: facts[name].type if name in facts else "" for name in order}
        return {name: go_value(types[name], value[name]) if name in value else "" for name in order}
    return _struct(fields, facts, _moved(value) if written == _POD else value)


def _facts(written: str) -> Mapping[str, FieldFacts] | None:
    try:
        return type_facts(_EMBEDDED.get(written, written))
    except KeyError:
        return None


def _moved(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    moved = {name: pod[name] for name in _MOVED if name in pod}
    return {**pod, "securityContext": {**moved, **(pod.get("securityContext") or {})}}


def _struct(fields: str, facts: Mapping[str, FieldFacts], value: Mapping[str, Any]) -> dict[str, Any]:
    names = {_go_name(name): name for name in {**facts, **value}}
    found: dict[str, Any] = {}
    for entry in fields.split():
        if entry == "@":
            found |= go_value("meta.v1.ObjectMeta", value.get("metadata") or {})
            continue
        field, _, zero = entry.partition(":")
        name = names.get(field.lower(), "")
        inner = facts[name].type if name in facts else ""
        if value.get(name) is not None:
            found[field] = go_value(inner, value[name])
        else:
            found[field] = go_value(inner, {}) if zero == "o" else _ZEROS[zero]
    return found


def _go_name(name: str) -> str:
    """Return the name of a field in Go, but for the case of its letters."""
    return name.replace("x-kubernetes-", "x").replace("-", "").lstrip("$").lower()


def _type_at(of: str, path: str, value: Any) -> str:
    """Return the type that a list or object has, given the path of a message about it; `""` where it is not known."""
    written, outer = of, ""
    for step in _STEP.findall(path):
        outer, written = written, _below(written, step)
    if type(value) is list or _facts(written) is not None or written.startswith(MAP):
        return written
    return outer


def _below(written: str, step: str) -> str:
    if step.startswith("["):
        return written.removeprefix(LIST) if written.startswith(LIST) else written.removeprefix(MAP)
    facts = (_facts(written) or {}).get(step)
    return "" if facts is None else facts.type
