"""The differential table: requests, and what the real server answers in its essentials.

A file of the table is a list of sections. A section has an `object` and the `path` to create it at; its rows are
`[name, fields, answer]`: the fields (by path, null removes one) are set in the object, which is then sent. `short` has
names for paths that occur often. With `update: true` the object is created first and the changed one is put, to the
path with `suffix`; `status` is written to it before. `given` are objects that are there before. `{ns}` stands for the
namespace.

An answer is `ok`, or the fields that an accepted object has in the answer; one error or a list of them,
`field: message`, of a 422 (after `~`, the message counts no further than its reason); or `code`, `reason`, `message`
of another refusal.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec.json
import msgspec.yaml

FOLDER = Path(__file__).parents[1] / "apiserver" / "differential"
# The reasons of causes, by how their messages begin.
REASONS = {
    "Required value": "FieldValueRequired", "Invalid value": "FieldValueInvalid", "Forbidden": "FieldValueForbidden",
    "Unsupported value": "FieldValueNotSupported", "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound", "Too long": "FieldValueTooLong", "Too many": "FieldValueTooMany",
}  # fmt: skip
# What the schemas of custom resources say of a value of another type, which has a reason of its own.
_OF_TYPE = " in body must be of type "
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

# Sends a request: method, target, body; returns code and body.
Send = Callable[[str, str, Any], Awaitable[tuple[int, Any]]]


class Given(msgspec.Struct, frozen=True):
    """An object that is there before."""

    path: str
    object: dict[str, Any]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows about one object."""

    name: str
    path: str
    object: dict[str, Any]
    rows: Sequence[tuple[str, Mapping[str, Any], Any]]
    short: Mapping[str, str] = {}
    update: bool = False
    suffix: str = ""
    status: Mapping[str, Any] = {}
    given: Sequence[Given] = ()


class Row(NamedTuple):
    """One row with its section."""

    section: Section
    name: str
    fields: Mapping[str, Any]
    answer: Any


def sections() -> list[Section]:
    """Return the sections of all files."""
    files = sorted(FOLDER.glob("*.yaml"))
    return [one for file in files for one in msgspec.yaml.decode(file.read_bytes(), type=list[Section])]


def rows(section: Section) -> list[Row]:
    """Return the rows of a section."""
    return [Row(section, *row) for row in section.rows]


async def mismatch(send: Send, namespace: str, row: Row) -> str:
    """Run a row, and return how the answer differs from the table, `""` for not at all.

    Objects that accepted rows leave are deleted, so that rows of a section can follow each other.
    """
    section = row.section
    path, sent = section.path.replace("{ns}", namespace), _in(namespace, section.object)
    method = "POST"
    if section.update:
        code, sent = await send("POST", path, sent)
        assert code == 201, sent
        method = "PUT"
    name = quote(sent.get("metadata", {}).get("name", ""))
    if section.status:
        code, sent = await send("PUT", f"{path}/{name}/status", {**sent, "status": deepcopy(section.status)})
        assert code == 200, sent
    set_fields(row, sent)
    name = quote(sent.get("metadata", {}).get("name", ""))
    code, body = await send(method, f"{path}/{name}{section.suffix}" if section.update else path, sent)
    if code < 300 or section.update:
        _, left = await send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        if left.get("metadata", {}).pop("finalizers", None):
            # No controller of a real server's protection plugins runs.
            await send("PUT", f"{path}/{name}", left)
    return _difference(row, code, body)


def _in(namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the namespace for `{ns}`."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj).replace(b"{ns}", namespace.encode()))
    return found


def set_fields(row: Row, obj: dict[str, Any]) -> None:
    """Set the fields of a row in the object of its section."""
    for place, value in row.fields.items():
        _set(obj, _long(row.section, place), deepcopy(value))


def _long(section: Section, place: str) -> str:
    head = re.split(r"[.\[]", place, maxsplit=1)[0]
    return section.short[head] + place[len(head) :] if head in section.short else place


def _steps(place: str) -> list[str | int]:
    return [int(number) if number else name for name, number in _STEP.findall(place)]


def _set(obj: Any, place: str, value: Any) -> None:
    steps = _steps(place)
    last = steps[-1]
    for step, following in pairwise(steps):
        if isinstance(obj, dict):
            obj = obj.setdefault(step, [] if isinstance(following, int) else {})
            continue
        while len(obj) <= int(step):
            obj.append({})
        obj = obj[step]
    if isinstance(obj, list):
        obj[int(last) :] = [value]
    elif value is None:
        obj.pop(last, None)
    else:
        obj[last] = value


def _at(obj: Any, place: str) -> Any:
    for step in _steps(place):
        known = step in obj if isinstance(obj, dict) else isinstance(obj, list) and int(step) < len(obj)
        if not known:
            return None
        obj = obj[step]
    return obj


def _difference(row: Row, code: int, body: Any) -> str:
    answer = row.answer
    if answer == "ok" or (isinstance(answer, dict) and "code" not in answer):
        if code >= 300:
            return f"refused: {body.get('message')}"
        wanted = {} if answer == "ok" else answer
        wrong = {place: found for place, value in wanted.items()
                 if (found := _at(body, _long(row.section, place))) != value}  # fmt: skip
        return f"has {wrong}" if wrong else ""
    if isinstance(answer, dict):
        wrong = {name: body.get(name) for name in answer if not _alike(answer[name], body.get(name))}
        return f"says {wrong}" if wrong else ""
    if code != 422:
        return f"answered {code}: {body.get('message', 'accepted')}"
    return _causes(row, [answer] if isinstance(answer, str) else answer, body)


def _alike(wanted: Any, said: Any) -> bool:
    if isinstance(wanted, str) and wanted.startswith("~"):
        return isinstance(said, str) and wanted[1:] in said
    return bool(wanted == said)


def _causes(row: Row, wanted: Sequence[str], body: Any) -> str:
    said = [(cause["field"], cause["reason"], cause["message"]) for cause in body["details"].get("causes", ())]
    left = list(said)
    for text in wanted:
        field, _, message = text.removeprefix("~").partition(": ")
        field = _long(row.section, field)
        reason = "FieldValueTypeInvalid" if _OF_TYPE in message else REASONS[message.partition(":")[0]]
        exact = not text.startswith("~")
        for cause in left:
            if cause[:2] == (field, reason) and (not exact or cause[2] == message):
                left.remove(cause)
                break
        else:
            return f"has no {text!r} in {said}"
    return f"has more: {left}" if left else ""
