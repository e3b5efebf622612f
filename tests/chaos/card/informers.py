"""Informers against a model: every event of a handler is one that the server has committed, and none is lost.

The model is fed by the storage itself. Each call of a handler is compared with it: the object is the one that the
server had under this uid and version, versions only grow, and what is known at the end is what the server has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from kcr.api import codec
from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.client import Client, Request, Response, Transport
from kcr.errors import GoneError
from kcr.informer import Handler, Informer, Selection
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.transport import InProcessTransport
from tests.chaos.tally import COMPARED, FAULTS, broken, checked, met
from tests.kit.transports import ChangedResponse

CHANGES, MANY = 1500, 1000
# How much goes wrong on the wire of each informer.
_SHARES = (0.005, 0.01, 0.02, 0.05, 0.3, 1.0)
_NAMESPACES = ("default", "kube-public", "kube-system")
KEYS = [Key(namespace, f"{letter}{digit}") for namespace in _NAMESPACES for letter in "abcdef" for digit in "012"]
_SELECTIONS: tuple[tuple[Selection[ConfigMap], ...], ...] = (
    (Selection(ConfigMap),),
    (Selection(ConfigMap, "default"),),
    (Selection(ConfigMap, "default"), Selection(ConfigMap, "kube-public"), Selection(ConfigMap)),
)
(_KIND,) = [kind for kind in KINDS if kind.type.kind == "ConfigMap"]


class Model:
    """All versions of all objects that the server ever had, and those that it has."""

    def __init__(self, storage: Storage) -> None:
        self.versions: dict[tuple[str, str], ConfigMap] = {}
        self.there: dict[Key, ConfigMap] = {}
        storage.cache(_KIND).subscribers[self._follow] = None

    def _follow(self, change: Change) -> None:
        obj = codec.decode(ConfigMap, change.record.data)
        if change.new is None:
            self.there.pop(obj.key, None)
            return
        self.versions[obj.metadata.uid, obj.metadata.resource_version] = obj
        self.there[obj.key] = obj


class Compared(Handler[ConfigMap]):
    """Compares each call with the model, and keeps what a handler knows."""

    def __init__(self, model: Model, wrongs: list[str]) -> None:
        self.known: dict[Key, ConfigMap] = {}
        self._model, self._wrongs = model, wrongs

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        self._compare("handlers_fit", obj.key not in self.known, f"{obj.key} is added again")
        self._is_committed(obj)
        self.known[obj.key] = obj

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        fits = self.known.get(new.key) == old and old.metadata.uid == new.metadata.uid
        newer = int(old.metadata.resource_version) < int(new.metadata.resource_version)
        self._compare("handlers_fit", fits, f"{new.key} is updated from a state that was never reported")
        self._compare("versions_grow", newer, f"{new.key} falls to {new.metadata.resource_version}")
        self._is_committed(new)
        self.known[new.key] = new

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        known = self.known.pop(obj.key, None)
        fits = known is not None and known.metadata.uid == obj.metadata.uid
        self._compare("handlers_fit", fits, f"{obj.key} is deleted and was not known")

    def _is_committed(self, obj: ConfigMap) -> None:
        committed = self._model.versions.get((obj.metadata.uid, obj.metadata.resource_version))
        self._compare("events_are_committed", committed == obj, f"{obj.key} was never {obj.metadata.resource_version}")

    def _compare(self, law: str, holds: bool, what: str) -> None:
        checked(law)
        COMPARED["events"] += law == "handlers_fit"
        if not holds:
            self._wrongs.append(f"{law}: {what}")
            broken(self._wrongs[-1])


async def live(seed: int) -> list[str]:
    """Change objects while informers follow them through faults of their own; return what was wrong."""
    random, clock, storage, wrongs = Random(seed), VirtualClock(), Storage(), list[str]()
    transport = InProcessTransport(APIServer(storage, clock=clock, random=Random(seed)))
    model, client = Model(storage), Client(transport)
    faults = [_faulty(transport, Random(f"{seed} {share}"), share) for share in _SHARES]
    chosen = [random.choice(_SELECTIONS) for _ in faults]
    informers = [
        Informer(Client(wire), selections, random=Random(seed)) for wire, selections in zip(faults, chosen, strict=True)
    ]
    handlers = [(Compared(model, wrongs), Compared(model, wrongs)) for _ in informers]
    for informer, pair in zip(informers, handlers, strict=True):
        for handler in pair:
            informer.add_handler(handler)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(informer.run()) for informer in informers]
        for _ in range(CHANGES):
            await asyncio.sleep(random.choice((0.0, 0.0, 0.0, 0.1, 0.5)))
            await _change(random, client, storage, model)
        for wire in faults:
            wire.heal()

        def is_right() -> bool:
            return not any(map(_differs, informers, handlers, chosen, [model] * len(informers)))

        for _ in range(40):
            await clock.advance(60)
            if is_right():
                break
        checked("nothing_is_lost", len(informers))
        wrongs += filter(None, map(_differs, informers, handlers, chosen, [model] * len(informers)))
        for task in tasks:
            task.cancel()
    for wire in faults:
        FAULTS.update({f"informer: {what}": times for what, times in wire.seen.items()})
    return wrongs


def _faulty(inner: Transport, random: Random, share: float) -> FaultyTransport:
    """Return a transport on which all goes wrong now and then; `share` is how much of it."""
    faults = FaultyTransport(inner, random=random)
    faults.on(chance=0.3 * share).delay(partial(random.uniform, 0, 3))
    faults.on(chance=0.2 * share).draw("lose_request", "lose_reply", "429", "500", "page 404", "page 502")
    # Pages and watches may begin at a version that is too old.
    for verb in ("list", "watch"):
        faults.on(verb, chance=0.1 * share).fail(GoneError)
    faults.on("event", chance=0.2 * share).delay(partial(random.uniform, 0, 10))
    for how in ("error", "half", "end"):
        faults.on("event", chance=0.03 * share).cut(how=how)
    faults.on("event", chance=0.03 * share).freeze()
    faults.on("event", chance=0.1 * share).repeat()
    return faults


async def _change(random: Random, client: Client, storage: Storage, model: Model) -> None:
    key = random.choice(KEYS)
    there = model.there.get(key)
    if random.random() < 0.01:
        storage.compact()
    elif there is None:
        await client.create_manifest(ConfigMap, _manifest(key.name), key.namespace)
    elif random.random() < 0.3:
        await client.delete(ConfigMap, key)
    else:
        await client.merge_patch(ConfigMap, key, {"data": {"value": str(random.random())}})


def _manifest(name: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"a": "b"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


def _differs(
    informer: Informer[ConfigMap],
    pair: tuple[Compared, Compared],
    chosen: tuple[Selection[ConfigMap], ...],
    model: Model,
) -> str:
    """Return how what an informer knows differs from the model; empty where it does not."""
    namespaces = {selection.namespace for selection in chosen}
    truth = {key: obj for key, obj in model.there.items() if "" in namespaces or key.namespace in namespaces}
    if not informer.store.synced:
        return f"nothing_is_lost: not synced: {informer.not_synced_reason}"
    stored = {obj.key: obj for obj in informer.store.list()}
    for known in (stored, *(handler.known for handler in pair)):
        if known != truth:
            wrong = [str(key) for key in {*known, *truth} if known.get(key) != truth.get(key)]
            return f"nothing_is_lost: {wrong[:5]} of {len(truth)} differ"
    return ""


_NAME = b'"name":"'
# Values that no field of a ConfigMap has, each complete JSON.
_HOSTILE = (
    b"null", b"true", b"7", b"-1", b"1e400", b"9" * 400, b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800"', b'"\\udc00 alone"',
    b'"\\u0000"', b"[]", b"{}", b"[null]", b'{"":null}', b'{"a":{"b":[]}}', b'"2026-13-45T99:00:00Z"', b'"99999-01-01"',
    b'"' + b"x" * 100_000 + b'"', b"[" * 1_200 + b"]" * 1_200, b'{"a":' * 12_000 + b"1" + b"}" * 12_000,
)  # fmt: skip


def spoiled(number: int) -> Callable[[bytes], bytes]:
    """Return a function that makes an object hostile in a way of its own."""
    random = Random(f"hostile {number}")
    value = _HOSTILE[number % len(_HOSTILE)]
    field, new = random.choice(
        (
            (b'"labels":{"a":"b"}', b'"labels":' + value),
            (b'"labels":{"a":"b"}', b'"labels":{"a":' + value + b"}"),
            (b'"data":{"a":"1"}', b'"data":' + value),
            (b'"data":{"a":"1"}', b'"data":{"a":' + value + b"}"),
            (b'"data":{"a":"1"}', b'"data":{"a":"1"},"data":' + value),
            (b'"data":{"a":"1"}', b'"data":{"a":"1"},"unknown":' + value),
            (b'"labels":{"a":"b"}', b'"annotations":' + value),
            (b'"labels":{"a":"b"}', b'"finalizers":' + value),
            (b'"labels":{"a":"b"}', b'"ownerReferences":' + value),
            (b'"labels":{"a":"b"}', b'"deletionTimestamp":' + value),
        )
    )
    return lambda obj: obj.replace(field, new, 1)


class HostileObjects:
    """A transport whose server has objects that are hostile, by the number in their name.

    They are bytes that no server sends, against kcr's decoder: `Rule.change` of the public kit changes objects.
    """

    def __init__(self, inner: Transport) -> None:
        self.hostile: dict[bytes, Callable[[bytes], bytes]] = {}
        self.inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        async with self.inner.send(request) as response:
            yield ChangedResponse(response, self._lines, self._body)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            yield self._body(line)

    def _body(self, body: bytes) -> bytes:
        # Each part is from the name of one object to that of the next.
        first, *parts = body.split(_NAME)
        spoiled = (self.hostile.get(part.partition(b'"')[0], _unspoiled)(part) for part in parts)
        return _NAME.join((first, *spoiled))


def _unspoiled(part: bytes) -> bytes:
    return part


_BATCH = 50


def hostiles() -> Iterator[tuple[str, ...]]:
    """Yield the parts of all stories of hostile objects: one after the other of 1,000, then 1,000 among 1,000."""
    yield from ((str(number),) for number in range(MANY // _BATCH + 1))


async def hostile(batch: int) -> list[str]:
    """Replace some objects by hostile ones, one at a time, in the last batch half of 2,000; return what is wrong."""
    clock, storage, wrongs = VirtualClock(), Storage(), list[str]()
    transport = InProcessTransport(APIServer(storage, clock=clock, random=Random(batch)))
    wire, client = HostileObjects(transport), Client(transport)
    is_last = batch * _BATCH >= MANY
    for number in range(2 * MANY if is_last else MANY):
        await client.create_manifest(ConfigMap, _manifest(f"o{number}x"), "default")
    if is_last:
        wire.hostile = {b"o%dx" % number: spoiled(number) for number in range(0, 2 * MANY, 2)}
        return await _read(wire, await _truth(client), wrongs)
    truth = await _truth(client)
    for number in range(batch * _BATCH, (batch + 1) * _BATCH):
        wire.hostile = {b"o%dx" % number: spoiled(number)}
        await _read(wire, truth, wrongs)
    return wrongs


async def _truth(client: Client) -> dict[Key, ConfigMap]:
    return {obj.key: obj for obj in await client.list(ConfigMap)}


async def _read(wire: HostileObjects, truth: dict[Key, ConfigMap], wrongs: list[str]) -> list[str]:
    """Let an informer read everything, and compare it with what the server has."""
    met("object: hostile")
    FAULTS["object: hostile"] += len(wire.hostile) - 1
    informer = Informer(Client(wire), ConfigMap, random=Random(1))
    bad = {Key("default", name.decode()) for name in wire.hostile}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        try:
            async with asyncio.timeout(60):
                await informer.wait_synced()
        except TimeoutError:
            wrongs.append(f"nothing_is_lost: not synced beside {sorted(bad)[:3]}: {informer.not_synced_reason}")
        else:
            checked("hostile_objects_harm_no_other", len(truth))
            stored = {obj.key: obj for obj in informer.store.list()}
            lost = [key for key in truth if key not in bad and stored.get(key) != truth[key]]
            hidden = [key for key in bad if key not in stored and key not in informer.store.undecodable]
            wrongs += [f"hostile_objects_harm_no_other: {key} is not stored" for key in lost[:3]]
            wrongs += [f"hostile_objects_are_named: {key} is neither stored nor set apart" for key in hidden[:3]]
        task.cancel()
    return wrongs
