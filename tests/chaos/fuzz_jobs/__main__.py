"""`python -m tests.chaos.fuzz_jobs FIRST LAST`, or with one SEED: that scenario alone, told step by step.

One is told beside kube-controller-manager as well, where `KUBEBUILDER_ASSETS` has it.
"""

import asyncio
import logging
import os
import sys

import structlog

from tests.chaos.fuzz_jobs.control_plane import both_controllers_plane, find_program, tell_one
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
    return _beside(seeds[0]) if len(seeds) == 1 else 0


def _beside(seed: int) -> int:
    """Tell a scenario side by side with kube-controller-manager, if there is one."""
    programs = find_program()
    if programs is None:
        return 0
    with both_controllers_plane(*programs) as config:
        return int(bool(asyncio.run(tell_one(config, seed))))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
