import asyncio

import pytest

from kcr.errors import NotFoundError
from kcr.testing import consistently, eventually

pytestmark = pytest.mark.kcr_virtual


async def test_what_the_check_gives_at_last_is_returned() -> None:
    loop = asyncio.get_running_loop()
    found = await eventually(lambda: "there" if loop.time() >= 3 else "")
    assert found == "there"
    assert 3 <= loop.time() < 3.1


async def test_checks_may_wait_and_fail_at_first() -> None:
    loop = asyncio.get_running_loop()

    async def check() -> bool:
        await asyncio.sleep(0.01)
        if loop.time() < 1:
            raise NotFoundError(404, "NotFound", "pods pi not found")
        assert loop.time() > 2
        return True

    assert await eventually(check)


async def test_patience_ends_with_the_last_failure() -> None:
    def check() -> bool:
        raise AssertionError("two pods, not three")

    with pytest.raises(AssertionError, match="check: not fulfilled after 5 s: two pods, not three"):
        await eventually(check, seconds=5)


async def test_what_holds_all_the_time_is_consistent() -> None:  # TK-13
    began = asyncio.get_running_loop().time()
    await consistently(lambda: True, seconds=3)
    assert asyncio.get_running_loop().time() - began >= 3


async def test_what_stops_to_hold_is_told_with_the_moment() -> None:  # TK-13
    async def early() -> bool:
        return asyncio.get_running_loop().time() < 2

    with pytest.raises(AssertionError, match=r"early: no longer fulfilled after 2(\.\d+)? s: False"):
        await consistently(early)
