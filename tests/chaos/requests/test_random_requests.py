"""Whatever is sent in whatever order: no fault of the server, and no broken invariant.

Ten thousand requests are the fifty first seeds. What a failing seed prints is the shortest story that breaks the same
invariant; `python -m tests.chaos.requests.story SEED` tells it again.
"""

import pytest

from tests.chaos.requests.story import failure_of

QUICK, ALL = 1, 250


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(QUICK))
def test_some_stories_of_requests_break_no_invariant(seed: int) -> None:
    failure = failure_of(seed)
    assert failure is None, str(failure)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_stories_of_requests_break_no_invariant(seed: int) -> None:
    failure = failure_of(seed)
    assert failure is None, str(failure)
