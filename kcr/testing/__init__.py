"""Test kit: fakes, an embedded cluster, faults and virtual time for tests of controllers.

Its names need the extra `test`; with `kcr` alone there are `build`, `FakeManager`, `FakeInformer`, `FakeRecorder` and
`FakeSource`.

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
import pkgutil
import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

# The public names, each with its module: the one list of them, for type checkers and for `_homes`.
if TYPE_CHECKING:
    from kcr.testing import build as build
    from kcr.testing.fakes import (
        FakeInformer as FakeInformer,
        FakeManager as FakeManager,
        FakeRecorder as FakeRecorder,
        FakeSource as FakeSource,
    )
    from kcr_devcluster.testing.admission import AdmissionResult as AdmissionResult, admit as admit
    from kcr_devcluster.testing.clusters import simulated_cluster as simulated_cluster
    from kcr_devcluster.testing.controlplane import ApiServer as ApiServer
    from kcr_devcluster.testing.crash import CrashingTransport as CrashingTransport
    from kcr_devcluster.testing.explore import explore as explore
    from kcr_devcluster.testing.faults import FaultyTransport as FaultyTransport
    from kcr_devcluster.testing.loop import (
        StallError as StallError,
        VirtualClock as VirtualClock,
        consistently as consistently,
        eventually as eventually,
    )
    from kcr_devcluster.testing.mutations import MutatedError as MutatedError, unchanged_stores as unchanged_stores
    from kcr_devcluster.testing.namespaces import namespace_ends as namespace_ends
    from kcr_devcluster.testing.pods import PodScript as PodScript
    from kcr_devcluster.testing.requests import requests as requests
    from kcr_devcluster.testing.rules import Rule as Rule
    from kcr_devcluster.testing.round_trip import check_round_trip as check_round_trip


@cache
def _homes() -> dict[str, str]:
    text = (pkgutil.get_data(__name__, "__init__.py") or b"").decode()
    found = re.findall(r"^    from (\S+) import (\([^)]*\)|.*)$", text, re.MULTILINE)
    return {name: home for home, names in found for name in re.findall(r"\w+(?= as )", names)}


if not TYPE_CHECKING:  # type checkers have the imports above, and must refuse all other names
    # Imported when first used: the pytest plugin imports this package in every project, and the client brings aiohttp.
    def __getattr__(name: str) -> object:
        if name == "__all__":
            return sorted(_homes())
        if name not in _homes():
            raise AttributeError(f"module 'kcr.testing' has no attribute {name!r}")
        home = _homes()[name]
        if home == __name__:
            return importlib.import_module(f"{home}.{name}")
        if home.startswith("kcr_devcluster.") and find_spec("kcr_devcluster") is None:
            raise ImportError(f"kcr.testing.{name} needs the extra 'test': pip install 'kcr[test]'")
        value = globals()[name] = getattr(importlib.import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted(_homes())
