from random import Random

import pytest

from kcr.errors import KcrError, TransportError, error_for
from kcr.informer.phases import (
    Empty,
    Listed,
    Listing,
    Next,
    Phase,
    ReflectorBackoff,
    Streaming,
    Watching,
    after_end,
    after_failure,
    is_unsupported,
)

NOW = 100.0
LISTED = Listed(version="7")
WATCHING = Watching(version="7", began=50.0, events=3)
CUT = TransportError("cut")


def refused(code: int) -> KcrError:
    return error_for(code, "", "no")


# RF-2, RF-9
@pytest.mark.parametrize(
    ("phase", "error", "expected"),
    [
        pytest.param(LISTED, CUT, Next(LISTED), id="RF-16-refused-connection-keeps-the-version"),
        pytest.param(LISTED, refused(429), Next(LISTED), id="RF-16-busy-keeps-the-version"),
        pytest.param(LISTED, refused(410), Next(Empty()), id="RF-17-expired-reads-all-again"),
        pytest.param(LISTED, refused(500), Next(Empty()), id="RF-16-others-read-all-again"),
        pytest.param(WATCHING, CUT, Next(LISTED, pause=False), id="RF-17-cut-watch-goes-on"),
        pytest.param(WATCHING, refused(429), Next(LISTED), id="RF-17-busy-backs-off"),
        pytest.param(WATCHING, refused(410), Next(Empty()), id="RF-17-expired-in-the-stream"),
        pytest.param(WATCHING, refused(500), Next(Empty()), id="RF-17-others-in-the-stream"),
        pytest.param(Watching(version="7", began=99.5), CUT, Next(LISTED), id="RF-18-cut-at-once"),
        pytest.param(Streaming(began=50.0), CUT, Next(Empty()), id="RF-24-refused-connection-streams-again"),
        pytest.param(Streaming(began=50.0), refused(429), Next(Empty()), id="RF-24-busy-streams-again"),
        pytest.param(Streaming(began=50.0), refused(410), Next(Empty()), id="RF-24-expired-streams-again"),
        pytest.param(Streaming(began=50.0), refused(422), Next(Listing(), pause=False), id="RF-24-others-list"),
        pytest.param(Listing(), refused(403), Next(Empty()), id="list-forbidden"),
        pytest.param(Listing(), refused(410), Next(Empty()), id="RF-9-first-page-expired"),
        pytest.param(
            Listing(continue_="t"), refused(410), Next(Listing(limit=0), pause=False), id="RF-8-next-page-expired"
        ),
        pytest.param(Listing(limit=0), CUT, Next(Empty()), id="list-cut"),
    ],
)
def test_failure_leads_to_the_phase_that_heals_it(phase: Phase, error: KcrError, expected: Next) -> None:
    assert after_failure(phase, error, NOW) == expected


# RF-2, RF-17
@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param(WATCHING, Next(LISTED, pause=False), id="clean-end"),
        pytest.param(Watching(version="7", began=99.5), Next(LISTED), id="RF-18-short-and-empty"),
        pytest.param(Watching(version="7", began=99.5, events=1), Next(LISTED, pause=False), id="short-with-events"),
        pytest.param(Watching(version="7", began=99.0), Next(LISTED, pause=False), id="one-second-is-not-short"),
        pytest.param(Streaming(began=50.0, events=2), Next(Listing(), pause=False), id="no-mark-of-the-end"),
    ],
)
def test_end_of_a_stream_leads_on_from_its_version(phase: Streaming | Watching, expected: Next) -> None:
    assert after_end(phase, NOW) == expected


@pytest.mark.parametrize(("code", "unsupported"), [(400, True), (422, True), (403, False), (500, False), (404, False)])
def test_refused_options_mean_that_streaming_is_unknown(code: int, unsupported: bool) -> None:
    assert is_unsupported(refused(code)) is unsupported


class Fixed(Random):
    """A random source that always says the same."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


# RF-3
def test_pauses_double_up_to_half_a_minute() -> None:
    backoff = ReflectorBackoff(Fixed(0.0))
    assert [backoff.pause(0.0) for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


# RF-3
def test_chance_lengthens_a_pause_at_most_twofold() -> None:
    assert ReflectorBackoff(Fixed(0.5)).pause(0.0) == 0.8 * 1.5


# RF-3
def test_two_quiet_minutes_start_anew() -> None:
    backoff = ReflectorBackoff(Fixed(0.0))
    assert [backoff.pause(now) for now in (0.0, 119.0, 238.0, 358.0)] == [0.8, 1.6, 3.2, 0.8]
