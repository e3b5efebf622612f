"""Test kit: fakes, an embedded cluster, faults and virtual time for tests of controllers.

`pytest.mark.kcr_virtual` runs a test on its own loop in virtual time: time jumps to the next timer when every task
waits, so hours pass in milliseconds, deterministically. The fixture `kcr_clock` is the test's `VirtualClock`, and
`kcr_cluster` an `EmbeddedCluster` whose node simulates its pods; the mark `kcr_cluster(kinds=[Website],
controllers=["job"])` declares kinds and runs further controllers. A test fails if it leaves a task, or if it mutates an
object in a store. The report of a failed test has a timeline of all writes; `--kcr-seed` changes names, uids and faults
(`kcr_faults`).

Four levels of tests:

- one reconciler: `FakeManager` and `FakeInformer`; the test fills the stores, or `relist` reads them from the server;
  `build` creates objects in few words, and `FakeRecorder` keeps the events;
- one webhook: `await admit(webhook, obj)` needs no server, and returns an `AdmissionResult`; with a server, the
  webhooks of a manager are called while it runs, without sockets;
- code on list and watch: `FakeSource`, a server of one kind that can lose events, break watches and expire;
- a complete controller on the fixture `kcr_cluster`, with `FaultyTransport` and `CrashingTransport` for faults,
  and `PodScript` for scripted pods; `explore` tries faults at each write.

`eventually` and `consistently` wait on the test's loop, virtual or real, so such a test also runs on a real API server:
the fixture `kcr_apiserver` is a kube-apiserver if `KUBEBUILDER_ASSETS` names one, else the embedded one.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kcr.testing.loop import StallError, VirtualClock, consistently, eventually

if TYPE_CHECKING:
    from kcr.testing import build
    from kcr.testing.fakes import FakeInformer, FakeManager, FakeRecorder
    from kcr.testing.mutations import MutatedError, unchanged_stores
    from kcr.testing.source import FakeSource
    from kcr_devcluster.testing.admission import AdmissionResult, admit
    from kcr_devcluster.testing.clusters import simulated_cluster
    from kcr_devcluster.testing.controlplane import ApiServer
    from kcr_devcluster.testing.crash import CrashingTransport
    from kcr_devcluster.testing.explore import explore
    from kcr_devcluster.testing.faults import FaultyTransport
    from kcr_devcluster.testing.namespaces import namespace_ends
    from kcr_devcluster.testing.pods import PodScript
    from kcr_devcluster.testing.requests import requests
    from kcr_devcluster.testing.round_trip import check_round_trip

__all__ = [
    "AdmissionResult",
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
    "admit",
    "build",
    "check_round_trip",
    "consistently",
    "eventually",
    "explore",
    "namespace_ends",
    "requests",
    "simulated_cluster",
    "unchanged_stores",
]

# Imported when first used: the pytest plugin imports this package in every project, and the client brings aiohttp.
_HOMES = {
    "AdmissionResult": "kcr_devcluster.testing.admission",
    "admit": "kcr_devcluster.testing.admission",
    "ApiServer": "kcr_devcluster.testing.controlplane",
    "CrashingTransport": "kcr_devcluster.testing.crash",
    "FakeInformer": "kcr.testing.fakes",
    "FakeManager": "kcr.testing.fakes",
    "FakeRecorder": "kcr.testing.fakes",
    "FakeSource": "kcr.testing.source",
    "FaultyTransport": "kcr_devcluster.testing.faults",
    "MutatedError": "kcr.testing.mutations",
    "PodScript": "kcr_devcluster.testing.pods",
    "check_round_trip": "kcr_devcluster.testing.round_trip",
    "explore": "kcr_devcluster.testing.explore",
    "namespace_ends": "kcr_devcluster.testing.namespaces",
    "requests": "kcr_devcluster.testing.requests",
    "simulated_cluster": "kcr_devcluster.testing.clusters",
    "unchanged_stores": "kcr.testing.mutations",
}


if not TYPE_CHECKING:  # type checkers have the imports above, and must refuse all other names

    def __getattr__(name: str) -> object:
        if name == "build":
            return importlib.import_module("kcr.testing.build")
        if name not in _HOMES:
            raise AttributeError(f"module 'kcr.testing' has no attribute {name!r}")
        home = _HOMES[name]
        if home.startswith("kcr_devcluster.") and find_spec("kcr_devcluster") is None:
            raise ImportError(f"kcr.testing.{name} needs the extra 'test': pip install 'kcr[test]'")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value


def __dir__() -> list[str]:
    # Without it, `help` shows the few names that are imported already.
    return __all__
