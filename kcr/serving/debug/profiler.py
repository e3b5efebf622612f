"""A sampling profiler of the program's thread, with collapsed stacks as output.

Another thread samples the stack some 100 times a second, which costs the program a few percent while it lasts, and
nothing otherwise. C code that keeps the interpreter lock is seen at the line that calls it.
"""

import asyncio
import selectors
import sys
from collections import Counter
from types import FrameType

from kcr.stacks import LOOP_FILES

SAMPLES_PER_SECOND = 100
MAX_SECONDS = 60
_MAX_FRAMES = 100

# Where a loop waits for something to do; the second is the innermost Python of uvloop, and of a loop that has ended.
_WAITING = (selectors.__file__, asyncio.runners.__file__)
# The stacks of a program that has nothing to do, and of the loop's own code.
IDLE, LOOP = "(idle)", "(event loop)"


async def profile(thread: int, seconds: float) -> str:
    """Return how often each stack of a thread was seen, a line each, most often first: `outer;inner 12`.

    Tools for flame graphs read this format. The frames below the event loop are left out; when its own code runs, the
    stack is `(event loop)`, and `(idle)` when it waits. (uvloop's own code is no Python: all of its time without a
    callback is idle.)

    Args:
        thread: The thread.
        seconds: How long to sample.
    """
    counts: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(1 / SAMPLES_PER_SECOND)
        counts[collapsed(sys._current_frames().get(thread))] += 1
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def collapsed(frame: FrameType | None) -> str:
    """Return a stack on one line, the outermost call first: `run (worker.py:130);reconcile (website.py:12)`."""
    codes: list[tuple[str, str]] = []
    is_waiting = frame is None or frame.f_code.co_filename in _WAITING
    while frame is not None and len(codes) < _MAX_FRAMES:
        code = frame.f_code
        codes.append((code.co_filename, f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"))
        frame = frame.f_back
    codes.reverse()
    # The program up to its event loop, and the loop, are the same in all.
    first = next((number for number, (file, _) in enumerate(codes) if file.startswith(LOOP_FILES)), len(codes))
    calls = [(file, call) for file, call in codes[first:]] if first < len(codes) else codes
    while calls and calls[0][0].startswith(LOOP_FILES):
        calls.pop(0)
    return ";".join(call.replace(";", ":") for _, call in calls) or (IDLE if is_waiting else LOOP)
