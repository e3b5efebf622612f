"""Connections to a port that say nothing."""

import asyncio


async def closed_first(port: int) -> bool:
    """Return whether the first of three connections is closed for the third, and only then.

    Args:
        port: The port, on 127.0.0.1, which may have two.
    """
    first, *others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    try:
        async with asyncio.timeout(5):  # by itself it is closed after ten
            said = await first[0].read()
        return not said and not any(reader.at_eof() for reader, _ in others)
    except TimeoutError:
        return False
    finally:
        for _, writer in (first, *others):
            writer.close()
