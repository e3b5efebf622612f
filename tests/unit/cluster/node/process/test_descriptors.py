"""Pipes that are read and written on the event loop."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kcr_devcluster.cluster.node.process.descriptors import DescriptorReader, DescriptorWriter

pytestmark = pytest.mark.asyncio
MUCH = bytes(1_000_000)
Pipe = tuple[DescriptorReader, DescriptorWriter]


@pytest_asyncio.fixture
async def pipe() -> AsyncIterator[Pipe]:
    read_end, write_end = os.pipe()
    reader, writer = DescriptorReader(read_end), DescriptorWriter(write_end)
    yield reader, writer
    writer.close()
    reader.close()


async def read_all(reader: DescriptorReader) -> int:
    size = 0
    while data := await reader.read():
        size += len(data)
    return size


async def test_writer_waits_for_the_reader(pipe: Pipe) -> None:
    reader, writer = pipe
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(writer.write(MUCH))
        await asyncio.sleep(0)
        assert not writing.done()
        reading = group.create_task(read_all(reader))
        await writing
        writer.close()
    assert reading.result() == len(MUCH)


async def test_writes_of_several_clients_are_not_mixed(pipe: Pipe) -> None:
    reader, writer = pipe
    received = bytearray()
    async with asyncio.TaskGroup() as group:
        writing = [group.create_task(writer.write(letter * 200_000)) for letter in (b"a", b"b", b"c")]
        while len(received) < 600_000:
            received += await reader.read()
        await asyncio.wait(writing)
    assert received == b"a" * 200_000 + b"b" * 200_000 + b"c" * 200_000


async def test_closing_fails_a_write_that_waits(pipe: Pipe) -> None:
    _, writer = pipe
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(_fails(writer))
        await asyncio.sleep(0)
        writer.close()
        assert await writing
    assert await _fails(writer)


async def _fails(writer: DescriptorWriter) -> bool:
    try:
        await writer.write(MUCH)
    except BrokenPipeError:
        return True
    return False


async def test_writer_without_a_reader_fails() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    writer = DescriptorWriter(write_end)
    assert await _fails(writer)
    writer.close()


async def test_silence_is_the_end_once_it_is_limited(pipe: Pipe) -> None:
    reader, writer = pipe
    await writer.write(b"x")
    assert await reader.read() == b"x"
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(reader.read())
        await asyncio.sleep(0)
        reader.limit_silence(0.01)
        assert await reading == b""
    await writer.write(b"late")
    assert await reader.read() == b"late"
