"""`kcr check`: the options of leader election and sharding."""

import pytest

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


def test_number_that_cannot_divide_the_slots_is_refused(kcr: Command) -> None:
    checked = kcr("check", "--shards", "6")
    assert (checked.code, checked.out) == (2, "")
    assert "the number of shards must be 1, 2, 4, 8, 16, 32 or 64" in checked.err
