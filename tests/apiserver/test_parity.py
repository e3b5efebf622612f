"""The embedded server answers as a real one did: the corpus of `parity`, against what is recorded in it."""

import pytest

from tests.apiserver.parity import corpus
from tests.apiserver.parity.servers import embedded

ENTRIES = corpus.entries()


@pytest.mark.asyncio
@pytest.mark.timeout(60)
@pytest.mark.parametrize("area", corpus.areas(ENTRIES))
async def test_answers_are_those_of_a_real_server_but_for_known_ones(area: str) -> None:
    asked = {key: entry for key, entry in ENTRIES.items() if entry.area == area}
    async with embedded() as send:
        ours = await corpus.answers_of(send, asked)
    differing = {key for key, entry in asked.items() if ours[key] != entry.answer}
    known = {key for key in corpus.known() if key in asked}
    assert {key: (asked[key].answer, ours[key]) for key in differing - known} == {}
    assert known - differing == set(), "these agree now: take them from known.yaml"


def test_known_differences_are_of_rows_that_are_there() -> None:
    assert set(corpus.known()) - set(ENTRIES) == set()


def test_every_row_has_the_answer_of_a_real_server() -> None:
    assert [key for key, entry in ENTRIES.items() if entry.answer is None] == []
