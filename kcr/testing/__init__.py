"""What users import in tests of their controllers.

Mark a test with `pytest.mark.kcr_virtual` and it runs on a loop of its own: time jumps to the next timer whenever
nothing is left to do, so that hours pass in milliseconds, and always in the same order. The fixture `kcr_clock` is
that test's `VirtualClock`, and `kcr_cluster` an `EmbeddedCluster` whose node only simulates its pods; the mark
`kcr_cluster(kinds=[Website], controllers=["job"])` declares kinds and runs controllers beside the one under test. At
the end of a test no task may be left, and no object in a store may have been changed. A test that fails shows a
timeline of all writes; `--kcr-seed` draws other names, uids and faults (`kcr_faults`).

Three heights to test at:

- a reconciler by itself: `FakeManager` and `FakeInformer`; the test says what the stores hold, or `relist` reads it
  from the server, `build` makes objects in few words, `FakeRecorder` keeps the events;
- what stands on list and watch: `FakeSource`, a server of one kind that can lose events, break watches and expire;
- a whole controller on the fixture `kcr_cluster`, with `FaultyTransport` and `CrashingTransport` in between for what
  goes wrong, and `PodScript` for pods that do as the test says.

`eventually` and `consistently` wait on whatever loop the test runs, so such a test can run on a real API server as
well: the fixture `kcr_apiserver` is a kube-apiserver where `KUBEBUILDER_ASSETS` names one, else the embedded one.
"""

import importlib
from typing import TYPE_CHECKING

from kcr.testing.loop import StallError, VirtualClock
from kcr.testing.servers import needed_by
from kcr.testing.waiting import consistently, eventually

if TYPE_CHECKING:
    from kcr.testing import build
    from kcr.testing.fakes import FakeInformer, FakeManager, FakeRecorder
    from kcr.testing.fixtures import MutatedError, unchanged_stores
    from kcr.testing.pods import PodScript
    from kcr.testing.servers.clusters import simulated_cluster
    from kcr.testing.servers.controlplane import ApiServer
    from kcr.testing.source import FakeSource
    from kcr.testing.transports.crash import CrashingTransport
    from kcr.testing.transports.faults import FaultyTransport

__all__ = [
    "ApiServer",
    "CrashingTransport",
    "FakeInformer",
    "FakeManager",
    "FakeRecorder",
    "FakeSource",
    "FaultyTransport",
    "MutatedError",
    "PodScript",
    "StallError",
    "VirtualClock",
    "build",
    "consistently",
    "eventually",
    "simulated_cluster",
    "unchanged_stores",
]

# Imported when first used: the pytest plugin imports this package in every project, and the client brings aiohttp.
_HOMES = {
    "ApiServer": "servers.controlplane",
    "CrashingTransport": "transports.crash",
    "FakeInformer": "fakes",
    "FakeManager": "fakes",
    "FakeRecorder": "fakes",
    "FakeSource": "source",
    "FaultyTransport": "transports.faults",
    "MutatedError": "fixtures",
    "PodScript": "pods",
    "simulated_cluster": "servers.clusters",
    "unchanged_stores": "fixtures",
}


if not TYPE_CHECKING:  # type checkers have the imports above, and shall refuse all other names

    def __getattr__(name: str) -> object:
        if name == "build":
            return importlib.import_module("kcr.testing.build")
        if name not in _HOMES:
            raise AttributeError(f"module 'kcr.testing' has no attribute {name!r}")
        with needed_by(f"kcr.testing.{name}"):
            value = globals()[name] = getattr(importlib.import_module(f"kcr.testing.{_HOMES[name]}"), name)
        return value


def __dir__() -> list[str]:
    # Without it, `help` shows the few names that are imported already.
    return __all__
