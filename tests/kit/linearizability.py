"""Whether a history is one that a linearizable store can have.

The calls on each object are searched for an order that explains all answers, in which no call comes before one that
had ended when it began. The search is that of Wing and Gong with Lowe's memory of what was tried (which Porcupine
uses): a set of calls and a state that have led to nothing are not tried again.

Then the versions are held against each other: the watcher that has seen everything has the changes in order, each write
once; a list is the state at its version, and misses no write that had ended when it was asked for; a watch sees the
changes after its version, of its selection, in order and without a gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.kit.histories import NEVER, SELECTOR, Call, Event, History, Listing, Obj, Watched

State = Mapping[str, Obj]


def violations(history: History) -> list[str]:
    """Return what a history shows and no linearizable store would; empty for nothing."""
    log = history.watches[0]
    return [
        *_unexplained(history.calls),
        *_wrong_log(log, history.calls),
        *(wrong for one in history.listings for wrong in _wrong_listing(one, log, history.calls)),
        *(wrong for one in history.watches for wrong in _wrong_watch(one, log)),
    ]


def after(state: Obj | None, call: Call) -> list[Obj | None]:
    """Return the state of an object after a call that found it in a state; empty if the answer does not fit.

    The version of a write without an answer is 0, until an answer shows it.
    """
    match call.verb, state:
        case "get", _:
            return _after_get(state, call)
        case "create", None:
            written = Obj(0, "", call.labels)
            return _answered(call, 201, None, written)
        case "create", _:
            return [state] if call.code == 409 else []
        case _, None:
            return [None] if call.code == 404 else []
    assert state is not None
    if call.guard and state.version not in (0, call.guard):
        return [state] if call.code == 409 else []
    if call.guard and not state.version and call.code == 409:
        return [state]
    if call.verb == "delete":
        fits = call.code == 0 or (call.found is not None and state.uid in ("", call.found.uid))
        return [None] if fits and call.code in (0, 200) else []
    labels = call.labels if call.verb == "put" else frozenset({**dict(state.labels), **dict(call.labels)}.items())
    return _answered(call, 200, state, Obj(0, state.uid, labels))


def _after_get(state: Obj | None, call: Call) -> list[Obj | None]:
    if state is None or call.found is None:
        return [state] if state is None and call.code == 404 else []
    same_version = state.version in (0, call.found.version)
    return [call.found] if same_version and _is_like(state, call.found) and call.code == 200 else []


def _answered(call: Call, code: int, old: Obj | None, written: Obj) -> list[Obj | None]:
    """Return the state after a write that has happened, if its answer says so, or if there is none."""
    unchanged = old is not None and old.labels == written.labels
    if call.code == 0:
        return [old if unchanged else written]
    if call.code != code or call.found is None or not _is_like(written, call.found):
        return []
    version = old.version if old is not None else 0
    fits = version in (0, call.found.version) if unchanged else call.found.version > version
    return [call.found] if fits else []


def _is_like(expected: Obj, found: Obj) -> bool:
    return expected.uid in ("", found.uid) and expected.labels == found.labels


def explained(calls: Sequence[Call]) -> bool:
    """Return whether the calls on one object have an order in which each finds what the ones before have left."""
    answered = sum(1 << place for place, one in enumerate(calls) if one.returned != NEVER)
    start: tuple[int, Obj | None] = (0, None)
    tried, waiting = {start}, [start]
    while waiting:
        done, state = waiting.pop()
        # A call without an answer need not have happened.
        if done & answered == answered:
            return True
        rest = [place for place in range(len(calls)) if not done & 1 << place]
        soonest = min(calls[place].returned for place in rest)
        for place in rest:
            if calls[place].called > soonest:
                continue
            for later in after(state, calls[place]):
                step = done | 1 << place, later
                if step not in tried:
                    tried.add(step)
                    waiting.append(step)
    return False


def _unexplained(calls: Sequence[Call]) -> Iterator[str]:
    for name in sorted({one.name for one in calls}):
        about = [one for one in calls if one.name == name]
        if not explained(about):
            told = "\n".join(f"  {one}" for one in about)
            yield f"no order of the calls on {name} explains their answers:\n{told}"


def _wrong_log(log: Watched, calls: Sequence[Call]) -> Iterator[str]:
    versions = [one.obj.version for one in log.events]
    if not log.is_whole:
        yield "the watcher of everything has not seen the last object"
    if versions != sorted(set(versions)):
        yield f"versions of changes do not grow: {versions}"
    logged = Counter((one.name, one.obj) for one in log.events if one.type != "DELETED")
    if repeated := [one for one, count in logged.items() if count > 1]:
        yield f"changes come twice: {repeated}"
    writes = [one for one in calls if one.code in (200, 201) and one.verb in ("create", "put", "patch")]
    if missing := [one for one in writes if (one.name, one.found) not in logged]:
        yield f"writes are no change: {missing}"
    for name in {one.name for one in calls}:
        yield from _wrong_deletions(name, log, calls)
    yield from _against_time(writes)


def _wrong_deletions(name: str, log: Watched, calls: Sequence[Call]) -> Iterator[str]:
    seen = sum(one.type == "DELETED" and one.name == name for one in log.events)
    deletions = [one for one in calls if one.verb == "delete" and one.name == name]
    least = sum(one.code == 200 for one in deletions)
    most = least + sum(one.code == 0 for one in deletions)
    if not least <= seen <= most:
        yield f"{name} was deleted {seen} times, by {least} to {most} calls"


def _against_time(writes: Sequence[Call]) -> Iterator[str]:
    """Yield the writes that began after another had ended, and have an older version."""
    for one in writes:
        for other in writes:
            assert one.found is not None
            assert other.found is not None
            if one.returned < other.called and one.found.version > other.found.version and other.name != one.name:
                yield f"a later write has an older version: {one} {other}"


def state_at(log: Watched, version: int) -> State:
    """Return the objects at a version, by name and in their order."""
    objects: dict[str, Obj] = {}
    for one in log.events:
        if one.obj.version > version:
            break
        if one.type == "DELETED":
            objects.pop(one.name, None)
        else:
            objects[one.name] = one.obj
    return dict(sorted(objects.items()))


def _wrong_listing(listing: Listing, log: Watched, calls: Sequence[Call]) -> Iterator[str]:
    if len(set(listing.versions)) > 1:
        yield f"the pages of a list are of several versions: {listing}"
    version = listing.versions[0]
    expected = tuple(state_at(log, version).items())
    if listing.objects != expected:
        yield f"a list is not the state at its version: {listing}, expected {expected}"
    if listing.option == "exact" and version != listing.asked:
        yield f"a list is not of the version that it asks for: {listing}"
    if listing.option == "not older" and version < listing.asked:
        yield f"a list is older than it may be: {listing}"
    for one in calls:
        if one.found is None or not one.found.version:
            continue
        is_newest = listing.option in ("", "limit=1")
        if is_newest and one.returned < listing.called and one.found.version > version:
            yield f"a list misses what was there before: {listing} {one}"
        # A write that changes nothing has the version of an older one.
        earlier = any(other.found == one.found and other.called < listing.returned for other in calls)
        is_write = one.verb in ("create", "put", "patch")
        if is_write and one.called > listing.returned and one.found.version <= version and not earlier:
            yield f"a list has a write that came later: {listing} {one}"


def _wrong_watch(watch: Watched, log: Watched) -> Iterator[str]:
    if not watch.is_whole:
        yield f"a watcher has not seen the last object: {watch}"
    if watch.state is not None:
        expected = tuple((name, obj) for name, obj in state_at(log, watch.start).items() if _matches(watch, obj))
        if watch.state != expected:
            yield f"a watch does not begin with the state at its version: {watch}, expected {expected}"
    changes = tuple(_selected(watch, log))
    if watch.events != changes[: len(watch.events)] or (watch.is_whole and len(watch.events) != len(changes)):
        yield f"a watch has not seen the changes after its version:\n  {watch.events}\nexpected:\n  {changes}"


def _matches(watch: Watched, obj: Obj) -> bool:
    return watch.selector != SELECTOR or ("team", "a") in obj.labels


def _selected(watch: Watched, log: Watched) -> Iterator[Event]:
    """Yield the events that a watch has to show: entering its selection is ADDED, leaving it DELETED."""
    before: dict[str, Obj] = {}
    for one in log.events:
        old = before.get(one.name)
        was = old is not None and _matches(watch, old)
        now = one.type != "DELETED" and _matches(watch, one.obj)
        if one.type == "DELETED":
            before.pop(one.name, None)
        else:
            before[one.name] = one.obj
        if one.obj.version <= watch.start:
            continue
        if now:
            yield Event("MODIFIED" if was else "ADDED", one.name, one.obj)
        elif was and old is not None:
            yield Event("DELETED", one.name, Obj(one.obj.version, old.uid, old.labels))
