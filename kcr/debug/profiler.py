"""A sampling profiler of the program's thread: what it does, as collapsed stacks.

Another thread looks at the stack some 100 times a second, which costs the program a few percent while it lasts, and
nothing otherwise. C code that keeps the interpreter lock is seen at the line that calls it.
"""

import asyncio
import selectors
import sys
from collections import Counter
from types import FrameType

SAMPLES_PER_SECOND = 100
MAX_SECONDS = 60
_MAX_FRAMES = 100

# The files of the loop itself.
_LOOPS = (asyncio.__file__.removesuffix("__init__.py"), selectors.__file__)
IDLE = "(event loop)"


async def profile(thread: int, seconds: float) -> str:
    """Return how often each stack of a thread was seen, a line each, most often first: `outer;inner 12`.

    What tools for flame graphs read. The frames below the event loop are left out; when nothing runs on it, or its own
    code does, the stack is `(event loop)`.

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
    """Return a stack on one line, the outermost call first: `run (workers.py:130);reconcile (website.py:12)`."""
    codes: list[tuple[str, str]] = []
    while frame is not None and len(codes) < _MAX_FRAMES:
        code = frame.f_code
        codes.append((code.co_filename, f"{code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{frame.f_lineno})"))
        frame = frame.f_back
    codes.reverse()
    # The program up to its event loop, and the loop, are the same in all.
    first = next((number for number, (file, _) in enumerate(codes) if file.startswith(_LOOPS)), len(codes))
    calls = [(file, call) for file, call in codes[first:]] if first < len(codes) else codes
    while calls and calls[0][0].startswith(_LOOPS):
        calls.pop(0)
    return ";".join(call.replace(";", ":") for _, call in calls) or IDLE
