"""One seed has one trace: a story repeats exactly in every process, and with every version of Python.

The record makes the versions comparable: each of the matrix in .github/workflows/test.yaml has the same one.
"""

import os
import subprocess
import sys

import pytest

from tests.chaos.traces import COMMAND, RECORD, SEEDS, recorded

SOAK = [pytest.mark.soak, pytest.mark.timeout(0)]
# It starts processes of its own, which import everything again.
QUICK = pytest.mark.timeout(60)


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=SOAK)])
@pytest.mark.parametrize(
    ("name", "seed"), [pytest.param(*one, marks=QUICK if one[0] == "requests" else SOAK) for one in SEEDS]
)
def test_trace_of_a_seed_is_the_recorded_one_in_every_process(name: str, seed: int, hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.chaos.traces", name, str(seed)]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == recorded().get((name, seed)), (
        f"the trace is not that of {RECORD.name}. After a change of behaviour or of logs run `{COMMAND}`, and commit"
        " the file. Without one, a set, an id or a time decides what happens, or Python's version, or a library"
    )


def test_each_seed_is_recorded() -> None:
    assert recorded().keys() == set(SEEDS)
