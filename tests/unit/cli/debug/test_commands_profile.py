"""Which functions a profile's samples are in."""

from kcr.cli.debug.commands import Share, shares_of, table_of
from kcr.stacks import IDLE

COLLAPSED = """\
run (a.py:1);reconcile (b.py:2) 6
run (a.py:1);reconcile (b.py:2);decode (c.py:3) 2
walk (d.py:4);walk (d.py:4) 2
not a stack
"""


def test_samples_are_counted_by_innermost_function() -> None:
    samples, shares = shares_of(COLLAPSED)
    assert samples == 10
    assert shares == [
        Share("reconcile (b.py:2)", 6, 8),
        Share("decode (c.py:3)", 2, 2),
        Share("walk (d.py:4)", 2, 2),
        Share("run (a.py:1)", 0, 8),
    ]


def test_table_has_the_functions_with_samples_of_their_own() -> None:
    assert table_of(COLLAPSED) == [
        "10 samples",
        "   OWN   TOTAL  FUNCTION",
        " 60.0%   80.0%  reconcile (b.py:2)",
        " 20.0%   20.0%  decode (c.py:3)",
        " 20.0%   20.0%  walk (d.py:4)",
    ]


def test_time_in_which_the_loop_waits_is_idle() -> None:
    assert table_of(f"{IDLE} 30\n{COLLAPSED}")[:3] == [
        "40 samples, 75.0% of them idle",
        "   OWN   TOTAL  FUNCTION",
        " 15.0%   20.0%  reconcile (b.py:2)",
    ]


def test_profile_of_an_idle_process_says_so() -> None:
    assert table_of(f"{IDLE} 99\n") == ["99 samples, all of them idle: the event loop had nothing to do"]


def test_profile_without_samples_says_so() -> None:
    assert table_of("") == ["no samples: the profile is empty"]
