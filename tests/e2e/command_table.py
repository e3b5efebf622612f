"""The table of kubectl's commands: what each is given, and the essentials of what it prints.

A file of the table is a list of stories. A story has a namespace of its own, in which its rows run one after the other;
stories run at the same time. A row is:

- `line`: the line of `docs/spec/api-server.md` §28, or the feature, that it is about;
- `run`: the command behind `kubectl`, as a shell would split it; `{ns}` is the story's namespace;
- `input`: an object, or a list of objects, for `-f -`;
- `says`: texts that it prints, on stdout or stderr, in this order; `never`: texts that it does not print;
- `code`: its exit code, 0 where it is not said;
- `eventually`: it is run again until it says so, for what takes the cluster a moment;
- `while`: a command that goes on (`-w`, `-f`): it is ended when it has said all; `run` is sent meanwhile, once it
  has printed something.
"""

import asyncio
import shlex
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec.yaml

from tests.e2e.kubectl import Kubectl

FOLDER = Path(__file__).parent / "commands"
_SECONDS = 30.0
_PAUSE_SECONDS = 0.2


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row."""

    line: str
    run: str = ""
    input: Any = None
    says: Sequence[str] = ()
    never: Sequence[str] = ()
    code: int = 0
    eventually: bool = False
    going: str = msgspec.field(name="while", default="")


class Story(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that follow each other."""

    name: str
    rows: Sequence[Command]


def stories() -> list[Story]:
    """Return the stories of all files."""
    files = sorted(FOLDER.glob("*.yaml"))
    return [one for file in files for one in msgspec.yaml.decode(file.read_bytes(), type=list[Story])]


def lines() -> set[str]:
    """Return the lines that have rows."""
    return {row.line for story in stories() for row in story.rows}


async def tell(kubectl: Kubectl, story: Story, processes: asyncio.Semaphore) -> list[str]:
    """Run a story, and return what went otherwise than the table says; after the first such row it ends."""
    namespace = f"story-{story.name}"
    made = await _run(kubectl, Command(line="", run=f"create namespace {namespace}"), "default", processes)
    if made:
        return [f"{story.name}: {made}"]
    for row in story.rows:
        if wrong := await _run(kubectl, row, namespace, processes):
            return [f"{story.name}: kubectl {row.going or row.run}: {wrong}"]
    return []


async def _run(kubectl: Kubectl, row: Command, namespace: str, processes: asyncio.Semaphore) -> str:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SECONDS
    while True:
        async with processes:
            if row.going:
                wrong = await _follow(kubectl, row, namespace)
            else:
                wrong = _judge(row, *await _once(kubectl, row.run, namespace, row.input))
        if not wrong or not row.eventually or loop.time() > deadline:
            return wrong
        await asyncio.sleep(_PAUSE_SECONDS)


def _arguments(command: str, namespace: str) -> list[str]:
    return ["--namespace", namespace, *shlex.split(command.replace("{ns}", namespace))]


async def _once(kubectl: Kubectl, command: str, namespace: str, given: Any = None) -> tuple[int, str]:
    process = await kubectl.start("", *_arguments(command, namespace), stdin=PIPE if given is not None else DEVNULL)
    try:
        async with asyncio.timeout(_SECONDS):
            text, _ = await process.communicate(None if given is None else b"\n---\n".join(_documents(given)))
    except TimeoutError:
        process.kill()
        return await process.wait(), f"no end after {_SECONDS} s"
    assert process.returncode is not None  # it has ended
    return process.returncode, text.decode()


def _documents(given: Any) -> Iterator[bytes]:
    for one in given if isinstance(given, list) else [given]:
        yield msgspec.json.encode(one)


async def _follow(kubectl: Kubectl, row: Command, namespace: str) -> str:
    process = await kubectl.start("", *_arguments(row.going, namespace))
    assert process.stdout is not None  # it is a pipe
    text = ""
    try:
        async with asyncio.timeout(_SECONDS):
            while _missing(row.says, text):
                chunk = await process.stdout.read(4096)
                if not chunk:
                    break
                if row.run and not text:
                    await _once(kubectl, row.run, namespace)
                text += chunk.decode()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return _judge(row, row.code, text)


def _missing(wanted: Sequence[str], text: str) -> str:
    """Return the first text that is not there, behind those before it."""
    start = 0
    for one in wanted:
        found = text.find(one, start)
        if found < 0:
            return one
        start = found + len(one)
    return ""


def _judge(row: Command, code: int, text: str) -> str:
    if code != row.code:
        return f"exit code {code}: {text}"
    if missing := _missing(row.says, text):
        return f"does not say {missing!r}: {text}"
    unwanted = [one for one in row.never if one in text]
    return f"says {unwanted}: {text}" if unwanted else ""
