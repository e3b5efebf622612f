"""The figures of a replica by its usage, as the guide shows them."""

import pytest

pytest.importorskip("psutil", reason="of the extra bench")

from bench.jobs_controller import Usage
from bench.size import figures


def test_cpu_at_rest_is_that_of_a_minute() -> None:
    ready, settled = Usage(2.0, 90_000_000, 100_000_000), Usage(2.5, 95_000_000, 110_000_000)
    found = figures(5000, 1.5, ready, settled, Usage(2.6, 96_000_000, 120_000_000), 10.0)
    assert found.ready_cpu == 2.0
    assert round(found.rest_cpu, 6) == 0.6
    assert found.row() == "| 5,000 | 96 MB | 120 MB | 1.5 s | 2.0 s | 1.00% |"
