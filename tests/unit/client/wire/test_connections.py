import pytest

from kcr.client.wire.connections import TimedResolver

pytestmark = pytest.mark.asyncio


async def test_resolved_names_are_timed() -> None:
    heard = list[tuple[str, float]]()
    resolver = TimedResolver(lambda host, seconds: heard.append((host, seconds)))
    addresses = {found["host"] for found in await resolver.resolve("localhost", 443)}
    await resolver.close()
    assert "127.0.0.1" in addresses
    ((host, seconds),) = heard
    assert host == "localhost"
    assert seconds >= 0


async def test_name_that_cannot_be_resolved_is_timed_too() -> None:
    heard = list[str]()
    with pytest.raises(OSError, match=r".+"):
        await TimedResolver(lambda host, _: heard.append(host)).resolve("name.invalid", 443)
    assert heard == ["name.invalid"]
