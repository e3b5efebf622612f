"""`kcr check`: the options of leader election and sharding."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def test_rights_of_leader_election_are_checked(kcr: Command) -> None:
    checked = kcr("check", "--leader-elect")
    assert (checked.code, checked.err) == (0, "")
    assert 'ok    namespace    "default" exists' in checked.lines


def test_sharding_is_a_finding_of_its_own(kcr: Command) -> None:
    checked = kcr("check", "--shards", "8")
    assert (checked.code, checked.err) == (0, "")
    assert checked.lines[-1].startswith("ok    sharding     the API server does not filter by shard")
    assert not [line for line in kcr("check").lines if " sharding " in line]


def test_rights_in_selected_namespaces_are_left_to_their_namespaces(kcr: Command) -> None:
    checked = kcr("check", "--namespace-selector", "team=blue")
    assert (checked.code, checked.err) == (0, "")
    (line,) = [line for line in checked.lines if line.startswith("ok    rights")]
    assert line.endswith("all 2 are granted")


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_findings_are_printed_as_an_object(kcr: Command, form: str, read: Callable[[str], Any]) -> None:
    checked = kcr("check", "-o", form)
    found = {one["check"]: one for one in read(checked.out)}
    assert (checked.code, found["kinds"]) == (0, {"check": "kinds", "isWrong": False, "text": "all are served"})
    refused = kcr("check", "-n", "gone", "-o", form)
    assert refused.code == 1
    assert [one["check"] for one in read(refused.out) if one["isWrong"]] == ["namespace"]


def test_number_that_cannot_divide_the_slots_is_refused(kcr: Command) -> None:
    checked = kcr("check", "--shards", "6")
    assert (checked.code, checked.out) == (2, "")
    assert "the number of shards must be 1, 2, 4, 8, 16, 32 or 64" in checked.err
