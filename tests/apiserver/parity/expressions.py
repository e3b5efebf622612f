"""Rules of custom resources: rows of `expressions/*.yaml`.

A section has a `schema` of what is `self`, and `values` that rows give it; a row may have its own. `rule` is the rule,
or the whole entry of `x-kubernetes-validations`; without one, the schema has its rules. `changes` are pairs of an old
and a new value. With `root: true` the schema is that of the whole object, and values are such objects.

An answer is `refused` with the causes why the definition is refused, else one answer for each value and then each
change: `ok` or a list of causes. Paths begin at `self`. In a schema with `"{n}"` for a number, the answer has `from`:
the smallest number with which the definition is refused, and its causes; `never` where there is none.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import msgspec.yaml

from kcr.testing import eventually
from tests.apiserver.parity.answers import refusal
from tests.apiserver.parity.servers import Send

FOLDER = Path(__file__).with_name("expressions")
GROUP = "parity.kcr.dev"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# How many rows with objects share a definition.
TOGETHER = 40
# No number of a schema has an effect on costs above.
LARGEST = 1 << 40
_WHERE = re.compile(r"^spec\.(?:validation|versions\[0\]\.schema)\.openAPIV3Schema(?:\.properties\[parity\d*\])?\.?")
_PROPERTY = re.compile(r"\bparity\d*\b")
# Types of schemas have numbers that are drawn.
_TYPE = re.compile(r"\bselfType\d+")

# An entry of rules in a message, which the row has already.
_ENTRY = re.compile(r'\{"Rule":.*?"OptionalOldSelf":\w+\}')
_FIELDS = ("Rule", "Message", "MessageExpression", "Reason", "FieldPath", "OptionalOldSelf")
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_plurals = count()


class Row(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One rule in one schema."""

    name: str = ""
    rule: str | dict[str, Any] | None = None
    schema: dict[str, Any] | None = None
    values: list[Any] | None = None
    changes: list[tuple[Any, Any]] | None = None
    answer: Any = None


class Section(msgspec.Struct, forbid_unknown_fields=True):
    """Rows about one schema."""

    name: str
    rows: list[Row]
    schema: dict[str, Any]
    values: list[Any] = []
    changes: list[tuple[Any, Any]] = []
    root: bool = False


class Case(NamedTuple):
    """One row with what its section says."""

    schema: dict[str, Any]
    values: Sequence[Any]
    changes: Sequence[tuple[Any, Any]]
    root: bool
    recorded: Any


def cases(file: Path) -> Iterator[tuple[str, str, Case]]:
    """Yield the rows of a file: the names of section and row, and the row with the defaults of its section."""
    for section in msgspec.yaml.decode(file.read_bytes(), type=list[Section]):
        for row in section.rows:
            rule = row.rule["rule"] if isinstance(row.rule, dict) else row.rule
            assert row.name or rule, f"{file}: {section.name} has a row without a name"
            yield section.name, row.name or str(rule), _case_of(section, row)


def _case_of(section: Section, row: Row) -> Case:
    schema = deepcopy(section.schema if row.schema is None else row.schema)
    if row.rule is not None:
        rule = {"rule": row.rule} if isinstance(row.rule, str) else row.rule
        schema["x-kubernetes-validations"] = [rule]
    values = section.values if row.values is None else row.values
    return Case(schema, values, section.changes if row.changes is None else row.changes, section.root, row.answer)


async def answers_of(send: Send, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Return how a server answers cases, by their keys.

    What a definition is refused for is asked without storing it. Others share a kind, so that they are stored once and
    for many rows; which they are is guessed from the recorded answers.
    """
    found: dict[str, Any] = {}
    accepted = [key for key, case in cases.items() if isinstance(case.recorded, list)]

    async def define(key: str, case: Case) -> None:
        if "{n}" in str(case.schema):
            found[key] = await _bound(send, case)
        elif causes := await _refused(send, case.schema, root=case.root):
            found[key] = {"refused": causes}
        elif case.values or case.changes:
            accepted.append(key)
        else:
            found[key] = "ok"

    async with asyncio.TaskGroup() as group:
        for key in set(cases) - set(accepted):
            group.create_task(define(key, cases[key]))

    async def fill(keys: Sequence[str]) -> None:
        found.update(await _objects(send, {key: cases[key] for key in keys}))

    order = {key: place for place, key in enumerate(cases)}
    async with asyncio.TaskGroup() as group:
        for root, size in ((False, TOGETHER), (True, 1)):
            keys = sorted((key for key in accepted if cases[key].root is root), key=order.__getitem__)
            for start in range(0, len(keys), size):
                group.create_task(fill(keys[start : start + size]))
    return found


def _definition(schemas: Mapping[str, Any], *, root: bool) -> dict[str, Any]:
    """Return a definition whose objects have a property for each schema, or have the one schema."""
    plural = f"p{next(_plurals)}s"
    (schema,) = schemas.values() if root else ({"type": "object", "properties": schemas},)
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "versions": [version],
                 "names": {"plural": plural, "kind": plural.upper()}},
    }  # fmt: skip


async def _refused(send: Send, schema: Any, *, root: bool) -> Any:
    """Return why a definition is refused, None if it is not."""
    definition = _definition({"parity": schema}, root=root)
    code, body = await send("POST", f"{DEFINITIONS}?dryRun=All", definition)
    if code < 300:
        return None
    return _told(refusal(code, body), definition)


def _told(answer: Any, definition: Mapping[str, Any]) -> Any:
    """Return a refusal with paths from `self`, and without what every row would repeat or this run alone knows."""
    if isinstance(answer, list):
        return [_short(line) for line in answer]
    names = definition["spec"]["names"]
    message = answer["message"].replace(definition["metadata"]["name"], "{definition}")
    return answer | {"message": message.replace(names["kind"], "{kind}").replace(f"{names['plural']}.", "{plural}.")}


def _short(line: str) -> str:
    line = _TYPE.sub("selfType", _PROPERTY.sub("self", _WHERE.sub("self.", line)))
    line = line.replace("self.:", "self:", 1).replace("self.[", "self[", 1)
    return _ENTRY.sub(_entry, line).replace(_ADVICE, "{advice}")


def _entry(found: re.Match[str]) -> str:
    """Return `{rule}` for an entry of rules if it is written as Go writes it."""
    text = found[0]
    try:
        entry = json.loads(text)
    except ValueError:
        return text
    written = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        written = written.replace(char, f"\\u{ord(char):04x}")
    return "{rule}" if written == text and tuple(entry) == _FIELDS else text


async def _bound(send: Send, case: Case) -> Any:
    """Return the smallest number with which a definition is refused, and its causes."""
    text = msgspec.json.encode(case.schema)

    async def refused(number: int) -> Any:
        schema = msgspec.json.decode(text.replace(b'"{n}"', str(number).encode()))
        return await _refused(send, schema, root=case.root)

    recorded = case.recorded if isinstance(case.recorded, dict) else {}
    likely = recorded.get("from")
    if isinstance(likely, int) and not await refused(likely - 1) and (causes := await refused(likely)):
        return {"from": likely, "refused": causes}
    if not await refused(LARGEST):
        return {"from": "never"}
    low, high = 0, LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        if await refused(middle):
            high = middle
        else:
            low = middle
    return {"from": high, "refused": await refused(high)}


async def _objects(send: Send, cases: Mapping[str, Case]) -> dict[str, Any]:
    """Return how objects are answered, of definitions that share a kind unless they are refused."""
    root = next(iter(cases.values())).root
    properties = dict(zip(cases, (f"parity{number}" for number in range(len(cases))), strict=True))
    definition = _definition({properties[key]: case.schema for key, case in cases.items()}, root=root)
    code, body = await send("POST", DEFINITIONS, definition)
    if code >= 300:
        if len(cases) == 1:
            return {key: {"refused": _told(refusal(code, body), definition)} for key in cases}
        told = str(body)
        # Where none is named, they cost too much together.
        named = [key for key in cases if f"[{properties[key]}]" in told] or list(cases)
        rest = {key: case for key, case in cases.items() if key not in named}
        found = await _objects(send, rest) if rest else {}
        for key in named:
            found |= await _objects(send, {key: cases[key]})
        return found
    kind = _Kind(send, definition, properties)
    await kind.wait_served()
    found = {key: await kind.answers(key, case) for key, case in cases.items()}
    await send("DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}", None)
    return found


class _Kind:
    """A kind that is served, whose objects have a property for each row."""

    def __init__(self, send: Send, definition: dict[str, Any], properties: Mapping[str, str]) -> None:
        self._send, self._definition, self._properties = send, definition, properties
        self._path = f"/apis/{GROUP}/v1/{definition['spec']['names']['plural']}"

    async def wait_served(self) -> None:
        """Return when it is: on a real server some time after its definition came."""

        async def is_served() -> bool:
            return (await self._send("GET", self._path, None))[0] == 200

        await eventually(is_served)

    async def answers(self, key: str, case: Case) -> list[Any]:
        """Return the answers to the values and changes of a row."""
        found = [
            await self._send("POST", f"{self._path}?dryRun=All", self._made(key, case, one)) for one in case.values
        ]
        found += [await self._change(*(self._made(key, case, one) for one in change)) for change in case.changes]
        return ["ok" if code < 300 else _told(refusal(code, body), self._definition) for code, body in found]

    def _made(self, key: str, case: Case, value: Any) -> dict[str, Any]:
        content = value if case.root else {self._properties[key]: value}
        obj = {"apiVersion": f"{GROUP}/v1", "kind": self._definition["spec"]["names"]["kind"], **content}
        return obj | {"metadata": {"name": "x", **obj.get("metadata", {})}}

    async def _change(self, old: dict[str, Any], new: dict[str, Any]) -> tuple[int, Any]:
        code, created = await self._send("POST", self._path, old)
        if code != 201:
            return code, created
        new["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
        answer = await self._send("PUT", f"{self._path}/x", new)
        await self._send("DELETE", f"{self._path}/x", None)
        return answer
