"""Requests and what a server answers in its essentials: rows of `requests/`.

A section has an `object` and the `path` to create it at. In a row, `set` has fields of the object to change before it
is sent, by path: null removes one. Or `body` is sent instead: an object, or a text with the content type `type`. With
`update: true` in the section, the object is created first and the changed one is put, to the path with `suffix`;
`status` is written to it before. A row may have a `method`, and a `target`: a path of its own, or with `+` before it,
what follows the path of the section. `given` in a section are objects that are there before, and `before` in a row are
requests `[method, target, body, type]` that are sent before. `until` is an object that is refused once what is given
has an effect: a real server takes its time with policies. `{ns}` stands for the section's namespace. Objects that
rows leave are deleted, so that rows can follow each other.

`show` has paths of the answer to a row without a recorded one; afterwards, the answer itself has them. The path
`text:PATTERN` is what a pattern finds in the text of the answer. With `wait`, the request is repeated until the answer
has this path: a controller writes it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec.json
import msgspec.yaml

from kcr.testing import eventually
from tests.apiserver.parity.answers import alike, refusal
from tests.apiserver.parity.servers import Send

FOLDER = Path(__file__).with_name("requests")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
# Types of schemas have numbers that are drawn.
_TYPE = re.compile(rb"\b([A-Z][A-Za-z]+)\d{5,}(?=[.,)])")
_TEXT = "text:"
_UID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PATCHES = {"PATCH": "application/merge-patch+json"}
_namespaces = count()


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object that is there before."""

    path: str
    object: dict[str, Any]


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """One request."""

    name: str
    set: Mapping[str, Any] = {}
    body: Any = None
    method: str = ""
    target: str = ""
    type: str = ""
    accept: str = "application/json"
    before: Sequence[Sequence[Any]] = ()
    wait: str = ""
    show: Sequence[str] = ()
    answer: Any = None


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """Rows about one object."""

    name: str
    path: str
    rows: Sequence[Row]
    object: dict[str, Any] = {}
    update: bool = False
    suffix: str = ""
    status: Mapping[str, Any] = {}
    given: Sequence[Given] = ()
    until: Mapping[str, Any] = {}


class Case(NamedTuple):
    """One row with its section."""

    section: Section
    row: Row

    @property
    def recorded(self) -> Any:
        """What a real server answered."""
        return self.row.answer


def cases(file: Path) -> Iterator[tuple[str, str, Case]]:
    """Yield the rows of a file: the names of section and row, and both."""
    for section in msgspec.yaml.decode(file.read_bytes(), type=list[Section]):
        for row in section.rows:
            yield section.name, row.name, Case(section, row)


async def answers_of(send: Send, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Return how a server answers cases, by their keys."""
    found: dict[str, Any] = {}
    by_section: dict[int, list[str]] = {}
    for key, case in cases.items():
        by_section.setdefault(id(case.section), []).append(key)
    for keys in by_section.values():
        section = cases[keys[0]].section
        scene = _Scene(send, f"parity-{next(_namespaces)}")
        await scene.begin(section)
        found |= {key: await scene.answer(cases[key]) for key in keys}
        await scene.end()
    return found


class _Scene:
    """A section on a server, in a namespace of its own."""

    def __init__(self, send: Send, namespace: str) -> None:
        self._send, self._namespace = send, namespace
        # Where objects are that have been created, to delete them.
        self._made: list[str] = []

    async def begin(self, section: Section) -> None:
        """Create what is there before."""
        await self._send("POST", "/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        for given in section.given:
            code, body = await self._ask("POST", given.path, given.object)
            assert code == 201, body

        async def is_served() -> bool:
            return (await self._ask("GET", section.path, None))[0] != 404

        async def is_refused() -> bool:
            path = section.path.replace("{ns}", self._namespace)
            return (await self._send("POST", f"{path}?dryRun=All", section.until))[0] >= 400

        # A real server serves a kind some time after its definition came.
        await eventually(is_served)
        if section.until:
            await eventually(is_refused)
        self._given, self._made = self._made, []

    async def end(self) -> None:
        """Delete what was there before."""
        await self._delete(self._given)

        async def are_gone() -> bool:
            return all([(await self._send("GET", path, None))[0] == 404 for path in self._given])

        # A definition ends once its objects have.
        await eventually(are_gone)
        await self._send("DELETE", f"/api/v1/namespaces/{self._namespace}", None)

    async def answer(self, case: Case) -> Any:
        """Return the answer to a row."""
        section, row = case
        for method, target, body, *kind in row.before:
            code, answer = await self._ask(method, target, body, kind[0] if kind else "")
            assert code < 300, f"{section.name}/{row.name}: {method} {target}: {answer}"
        method, path, sent = "POST", section.path, deepcopy(section.object)
        if section.update:
            sent = await self._created(section)
            method, path = "PUT", f"{path}/{_name(sent)}{section.suffix}"
        set_fields(row, sent)
        if row.target:
            path = path + row.target[1:] if row.target.startswith("+") else row.target
        body = sent if row.body is None else row.body
        decode = not any(path.startswith(_TEXT) for path in _shown(row))

        async def ask() -> tuple[int, Any] | None:
            answer = await self._ask(row.method or method, path, body, row.type, row.accept, decode=decode)
            return None if row.wait and _at(answer[1], row.wait) is None else answer

        code, answer = await eventually(ask)
        await self._delete(self._made)
        self._made = []
        return self._told(_essence(row, code, answer))

    async def _created(self, section: Section) -> Any:
        code, sent = await self._ask("POST", section.path, section.object)
        assert code == 201, sent
        if section.status:
            path = f"{section.path}/{_name(sent)}/status"
            code, sent = await self._ask("PUT", path, {**sent, "status": section.status})
            assert code == 200, sent
        return sent

    async def _ask(
        self,
        method: str,
        target: str,
        body: Any,
        kind: str = "",
        accept: str = "application/json",
        *,
        decode: bool = True,
    ) -> tuple[int, Any]:
        """Send a request, and remember what it creates."""
        path = target.replace("{ns}", self._namespace)
        data = body.encode() if isinstance(body, str) else b"" if body is None else msgspec.json.encode(body)
        kind = kind or _PATCHES.get(method, "application/json")
        code, answer = await self._send(
            method,
            path,
            data.replace(b"{ns}", self._namespace.encode()),
            content_type=kind,
            accept=accept,
            decode=decode,
        )
        if code == 201 and isinstance(answer, dict):
            collection = path.partition("?")[0]
            name = _name(answer)
            self._made.append(collection if collection.endswith(f"/{name}") else f"{collection}/{name}")
        return code, answer

    async def _delete(self, paths: Sequence[str]) -> None:
        for path in reversed(paths):
            _, left = await self._send("DELETE", path, {"gracePeriodSeconds": 0})
            if isinstance(left, dict) and left.get("metadata", {}).pop("finalizers", None):
                # No controller of a real server's protection plugins runs.
                await self._send("PUT", path, left)

    def _told(self, answer: Any) -> Any:
        """Return an answer without the namespace and the uids, which this run alone knows."""
        text = msgspec.json.encode(answer).replace(self._namespace.encode(), b"{ns}")
        return msgspec.json.decode(_TYPE.sub(rb"\1", _UID.sub(b"{uid}", text)))


def _name(obj: Mapping[str, Any]) -> str:
    return quote((obj.get("metadata") or {}).get("name", ""))


def _essence(row: Row, code: int, answer: Any) -> Any:
    if not 200 <= code < 300:
        found = refusal(code, answer)
        return row.answer if alike(row.answer, found) else found
    return {path: _at(answer, path) for path in _shown(row)} or "ok"


def _shown(row: Row) -> Sequence[str]:
    """Return the paths of an answer that are shown."""
    return tuple(row.answer) if isinstance(row.answer, dict) and "code" not in row.answer else row.show


def set_fields(row: Row, obj: dict[str, Any]) -> None:
    """Set the fields of a row in the object of its section."""
    for place, value in row.set.items():
        _set(obj, place, deepcopy(value))


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
    if place.startswith(_TEXT):
        found = re.search(place.removeprefix(_TEXT), obj)
        return None if found is None else found[0]
    for step in _steps(place):
        known = step in obj if isinstance(obj, dict) else isinstance(obj, list) and int(step) < len(obj)
        if not known:
            return None
        obj = obj[step]
    return obj
