#!/usr/bin/env bash
# Shows how timers of uvloop differ from those of asyncio. Installs the package in a temporary folder; needs Python 3.11 or newer.
# Exit code: 0 while the behaviour is as described, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check uvloop==0.23.0
exec "$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import sys

import uvloop


async def observe():
    loop = asyncio.get_running_loop()
    seen = {}
    seen["call_later(0.0005): class of the handle, and whether it has when()"] = (
        type(handle := loop.call_later(0.0005, int)).__name__, hasattr(handle, "when"))
    order = []
    loop.call_later(0, order.append, "call_later(0)")
    loop.call_soon(order.append, "call_soon")
    await asyncio.sleep(0.01)
    seen["order of call_later(0) and a call_soon after it"] = order
    order = []
    base = loop.time()
    loop.call_at(base + 0.0204, order.append, "20.4 ms")
    loop.call_at(base + 0.0196, order.append, "19.6 ms")
    await asyncio.sleep(0.05)
    seen["order of timers for 20.4 ms and 19.6 ms"] = order
    early = 0
    for _ in range(200):
        deadline = loop.time() + 0.0014
        woken = loop.create_future()
        loop.call_at(deadline, woken.set_result, None)
        await woken
        early += loop.time() < deadline
    seen["some call_at(loop.time() + 0.0014) fire before that time by loop.time()"] = early > 0
    try:
        async with asyncio.timeout(0.0004):
            await asyncio.sleep(0)
        seen["timeout(0.0004) around sleep(0)"] = "passes"
    except TimeoutError:
        seen["timeout(0.0004) around sleep(0)"] = "TimeoutError"
    return seen


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    uv = runner.run(observe())
with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
    plain = runner.run(observe())

print(f"uvloop {uvloop.__version__}, Python {sys.version.split()[0]}")
print("Timers of uvloop are in whole milliseconds, rounded half to even. A delay of half a millisecond or less is a call_soon:")
print("call_at and call_later, documented to return a TimerHandle, return a Handle without when(); a later call_soon runs")
print("after it; and a timeout that short ends a body at its first await. Timers fire up to half a millisecond before their time")
print("by loop.time(), and those of one millisecond in the order in which they were set. asyncio has none of it.")
for what in uv:
    print(f"- {what}: uvloop {uv[what]}, asyncio {plain[what]}")

expected = [("Handle", False), ["call_later(0)", "call_soon"], ["20.4 ms", "19.6 ms"], True, "TimeoutError"]
if list(uv.values()) != expected:
    print(f"CHANGED: expected {expected}")
    sys.exit(1)
PYTHON
