"""What is read of an object, and of the events about it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from kcr.client import Client
from tests.kit.scripted_transport import Say, Script

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
KEY = Key("default", "a")


def event(version: str, message: str) -> dict[str, Any]:
    return {
        "metadata": {"name": message, "namespace": "default", "resourceVersion": version},
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        "lastTimestamp": "2026-06-01T11:59:00Z", "reason": message, "message": message, "type": "Normal",
    }  # fmt: skip


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("versions", "order"),
    [
        pytest.param(("10", "9"), ["there", "here"], id="numbers"),
        pytest.param(("b-10", "a-9"), ["here", "there"], id="opaque"),
    ],
)
async def test_events_of_one_moment_are_ordered_by_versions_that_are_numbers(
    versions: tuple[str, str], order: list[str]
) -> None:
    events = {"items": [event(versions[0], "here"), event(versions[1], "there")]}
    found = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}}
    shown = await look(Client(Script(Say(events), Say(found))), ObjectName(ConfigMap, "a"), KEY, NOW, ())
    assert [one.message for one in shown.events] == order
