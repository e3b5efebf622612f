"""The list of `kcr debug parked`."""

from kcr.cli.debug.commands import parked_keys, parked_lines
from tests.kit.debug_states import controller_state, debug_state, key_state


def test_parked_keys_are_listed_with_their_errors() -> None:
    keys = (key_state("etl/a", "parked", retries=6, error="ValueError: no"), key_state("etl/b", "backoff", retries=2))
    state = debug_state(controller_state(name="site", keys=keys, parked=1), controller_state(name="quiet"))
    assert list(parked_lines(state)) == ["site: etl/a, 6 failures in a row: ValueError: no"]
    assert parked_keys(state) == [{"controller": "site", "key": "etl/a", "failures": 6, "error": "ValueError: no"}]


def test_process_without_parked_keys_has_one_line() -> None:
    assert list(parked_lines(debug_state(controller_state(keys=(key_state("etl/b", "backoff"),))))) == [
        "no key is parked"
    ]
