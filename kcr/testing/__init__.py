"""What users import in tests of their controllers.

Mark a test with `pytest.mark.virtual` and it runs on a `VirtualLoop`: time jumps to the next timer whenever
nothing is left to do, so that hours pass in milliseconds, and always in the same order. The fixture `clock` is
that test's `VirtualClock`, and `cluster` an `EmbeddedCluster` whose node only simulates its pods.
"""

from kcr.testing.clock import VirtualClock
from kcr.testing.crash import CrashingTransport
from kcr.testing.loop import StallError, VirtualLoop
from kcr.testing.waiting import eventually

__all__ = ["CrashingTransport", "StallError", "VirtualClock", "VirtualLoop", "eventually"]
