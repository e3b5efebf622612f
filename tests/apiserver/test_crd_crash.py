"""The server dies after any write by which a definition comes or ends: the next one finishes what was begun."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.storage.journal import Journal
from kcr_devcluster.apiserver.storage.records import Change
from tests.kit.api import Api
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, conditions_of, definition, spec_schema, version, widget

pytestmark = pytest.mark.kcr_virtual

DEFINITION = definition(version("v1", spec_schema({"size": {"type": "integer"}})))
NAME = f"{DEFINITIONS}/widgets.ex.io"


class ProcessDiedError(BaseException):
    """No `except Exception` outlives the process."""


class MortalJournal(Journal):
    """A journal whose process dies after so many changes."""

    left = 1_000

    def append(self, change: Change) -> None:
        if not self.left:
            raise ProcessDiedError
        self.left -= 1
        super().append(change)


@asynccontextmanager
async def serve(file: Path, clock: VirtualClock) -> AsyncIterator[tuple[Api, MortalJournal]]:
    journal = MortalJournal(file)
    try:
        yield Api(APIServer(Storage(journal), clock=clock, random=Random(0))), journal
    finally:
        journal.close()


async def call_until_death(api: Api, journal: MortalJournal, writes: int, method: str, path: str, body: object) -> bool:
    """Send a request, and return whether the process has died in it."""
    journal.left = writes
    try:
        assert (await api.call(method, path, body)).status < 300
    except ProcessDiedError:
        return True
    return False


async def test_deletion_goes_on_after_a_crash_after_any_of_its_writes(kcr_clock: VirtualClock, tmp_path: Path) -> None:
    writes, died = 0, True
    while died:
        file = tmp_path / f"{writes}.sqlite"
        async with serve(file, kcr_clock) as (api, journal):
            await api.post(DEFINITIONS, DEFINITION)
            for name in ("a", "b", "c"):
                await api.post(WIDGETS, widget(name, {"size": 1}))
            died = await call_until_death(api, journal, writes, "DELETE", NAME, b"")
        async with serve(file, kcr_clock) as (api, _):
            # Nothing was written, nothing was acknowledged: the client sends its request again.
            status = (await api.call("DELETE" if writes == 0 else "GET", NAME)).status
            assert (status, (await api.call("GET", NAME)).status) == (200 if writes == 0 else 404, 404), writes
            assert (await api.call("GET", WIDGETS)).status == 404
            await api.post(DEFINITIONS, DEFINITION)
            assert (await api.get(WIDGETS))["items"] == []
        writes += 1
    assert writes > 5


async def test_definition_is_established_after_a_crash_after_any_write(kcr_clock: VirtualClock, tmp_path: Path) -> None:
    writes, died = 1, True
    while died:
        file = tmp_path / f"{writes}.sqlite"
        async with serve(file, kcr_clock) as (api, journal):
            died = await call_until_death(api, journal, writes, "POST", DEFINITIONS, DEFINITION)
        async with serve(file, kcr_clock) as (api, _):
            assert conditions_of(await api.get(NAME))["Established"][0] == "True", writes
            await api.post(WIDGETS, widget("a", {"size": 1}))
        writes += 1
    assert writes > 2
