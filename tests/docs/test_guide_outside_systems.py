"""The guide on outside systems: its controller of DNS records, through a day with an outage."""

import asyncio
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kcr
from kcr.testing import FakeManager, VirtualClock
from tests.kit.documents import ROOT, blocks, files

GUIDE = ROOT / "docs" / "guide" / "outside-systems.md"
SITES, HOUR = 100, 3600

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "records.py").write_text(files(GUIDE)["records.py"])
    monkeypatch.syspath_prepend(tmp_path)
    return __import__("records")


class Provider:
    """A DNS provider that counts calls, throttles beyond its limit, and may be away."""

    def __init__(self, records: ModuleType) -> None:
        self._errors = records
        self.zone: dict[str, str] = {}
        self.is_away = False
        # By minute, and those that were throttled.
        self.calls, self.throttled = Counter[int](), 0

    def _count(self) -> None:
        if self.is_away:
            raise ConnectionRefusedError("provider is away")
        minute = int(asyncio.get_running_loop().time() // 60)
        self.calls[minute] += 1
        # Bursts at both ends of a minute meet in it.
        if self.calls[minute] > 180:
            self.throttled += 1
            raise self._errors.Throttled

    def get(self, domain: str) -> str | None:
        self._count()
        return self.zone.get(domain)

    def put(self, domain: str, address: str) -> None:
        self._count()
        if address == "nowhere":
            raise self._errors.Rejected(f"{address} is not an address")
        self.zone[domain] = address

    def delete(self, domain: str) -> None:
        self._count()
        self.zone.pop(domain, None)


def website(records: ModuleType, number: int, address: str = "192.0.2.1") -> Any:
    metadata = kcr.ObjectMeta(name=f"site-{number}", namespace="default")
    return records.Website(metadata=metadata, spec=records.WebsiteSpec(domain=f"{number}.example", address=address))


async def test_every_block_is_run() -> None:
    assert {block.file for block in blocks(GUIDE)} == {"records.py"}


@pytest.mark.timeout(60)
async def test_day_with_an_outage_keeps_records_and_limits(records: ModuleType, kcr_clock: VirtualClock) -> None:
    manager, provider = FakeManager(kinds=[records.Website], follow_writes=True), Provider(records)
    records.add_records(manager, provider)
    wanted = {f"{number}.example": "192.0.2.1" for number in range(SITES)}
    for number in range(SITES):
        await manager.client.create(website(records, number))
    async with manager.running():
        await kcr_clock.advance(3 * HOUR)
        assert provider.zone == wanted
        provider.is_away = True
        await kcr_clock.advance(HOUR)
        provider.is_away = False
        await kcr_clock.advance(8 * HOUR)
        provider.zone["7.example"] = "203.0.113.9"  # by hand, at noon
        await kcr_clock.advance(1.6 * HOUR)
        assert provider.zone == wanted
        await manager.client.delete(records.Website, kcr.Key("default", "site-8"))
        await manager.client.create(website(records, 999, "nowhere"))
        await kcr_clock.advance(10.4 * HOUR)
        del wanted["8.example"]
        assert provider.zone == wanted
    assert provider.throttled == 0
    # The jitter spreads the checks: 100 of them in 75 minutes, with no minute of many.
    evening = [provider.calls[minute] for minute in range(20 * 60, 24 * 60)]
    assert max(evening) <= 12
    assert 0.7 < sum(evening) / (4 * 60 * SITES / 75) < 1.3
    assert (
        manager.metrics.registry.get_sample_value(
            "controller_runtime_terminal_reconcile_errors_total", {"controller": "records"}
        )
        == 1
    )
