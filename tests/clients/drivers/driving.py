"""What the drivers share: a driver reads one request per line from stdin and answers each with one line of JSON.

A driver runs in the environment of its client, where nothing of kcr is installed.
"""

import asyncio
import inspect
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

# How long a watch is followed, and how long anything may take.
WATCH_SECONDS = 8.0
SECONDS = 25.0
LAST = "late"


class Driver:
    """One client, with a method per thing that its API offers; a thing without a method is not asked.

    Attributes:
        namespace: The namespace of the thing.
        kubeconfig: The kubeconfig, whose server is a proxy unless the thing needs a web socket.
    """

    def __init__(self, namespace: str, kubeconfig: str, rotation: list[str]) -> None:
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self._rotation = rotation

    def between(self) -> None:
        """Rotate the token between two requests of one client, where the thing says so."""
        if self._rotation:
            path, token = self._rotation
            Path(path).write_text(token)

    def configmap(self, name: str = "made") -> dict[str, Any]:
        """Return the manifest of a ConfigMap."""
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "2"}}


def follow(events: Iterator[tuple[str, str]]) -> dict[str, Any]:
    """Follow a watch that blocks, until the last object or the time is over."""
    seen: list[str] = []
    end: list[Any] = []

    def run() -> None:
        try:
            for kind, name in events:
                seen.append(f"{kind} {name}")
                if name == LAST:
                    break
            end.append("ended")
        except Exception as error:
            end.append(raised(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WATCH_SECONDS)
    return {"events": seen, "end": end[0] if end else "open"}


async def follow_async(events: AsyncIterator[tuple[str, str]]) -> dict[str, Any]:
    """Follow a watch of an asynchronous client."""
    seen: list[str] = []
    end: Any = "ended"
    try:
        async with asyncio.timeout(WATCH_SECONDS):
            async for kind, name in events:
                seen.append(f"{kind} {name}")
                if name == LAST:
                    break
    except TimeoutError:
        end = "open"
    except Exception as error:
        end = raised(error)
    return {"events": seen, "end": end}


def raised(error: BaseException) -> dict[str, Any]:
    """Return an error as data."""
    response = getattr(error, "response", None)
    codes = (getattr(one, name, None) for one in (error, response) for name in ("status", "status_code", "code"))
    code = next((code for code in codes if isinstance(code, int)), None)
    return {"raised": type(error).__name__, "code": code, "message": str(error)[:400]}


def drive(make: Callable[[str, str, list[str]], Driver]) -> None:
    """Answer requests until stdin ends.

    Args:
        make: The class of the driver.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        method = getattr(make(told["namespace"], told["kubeconfig"], told["rotation"]), told["method"], None)
        print(json.dumps(_answer(method, told["arguments"])), file=answers, flush=True)


def _answer(method: Callable[..., Any] | None, arguments: list[Any]) -> dict[str, Any]:
    if method is None:
        return {"absent": True}
    try:
        value = method(*arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_bounded(value))
        return {"value": value}
    except Exception as error:
        return raised(error)


async def _bounded(value: Any) -> Any:
    async with asyncio.timeout(SECONDS):
        return await value
