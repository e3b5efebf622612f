"""`python -m tests.chaos.fuzz_jobs FIRST LAST`, or with one SEED: that scenario alone, told step by step."""

import logging
import os
import sys

import structlog

from tests.chaos.fuzz_jobs.stories import wrongs_of


def main(*seeds: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    tell = print if len(seeds) == 1 else lambda _: None
    for seed in range(seeds[0], seeds[-1] + (len(seeds) == 1)):

        def end(wrong: str, seed: int = seed) -> None:
            # The story may have no end: a controller that creates pods without end never lets time pass.
            print(f"seed {seed}: {wrong}", flush=True)
            if len(seeds) > 1:
                os._exit(1)

        try:
            wrongs = wrongs_of(seed, end, tell)
        except Exception as error:
            # A controller that falls over is wrong as well.
            wrongs = [repr(error)]
        if wrongs:
            print(f"seed {seed}: {wrongs[0]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
