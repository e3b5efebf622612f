"""The options of `explore`."""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kcr_devcluster.kinds import KindSource
from kcr_devcluster.testing.explore.recorder import HistoryInvariant, Invariant

# What is judged, in this order: the first that objects names the finding.
Oracle = Literal[
    "invariant", "scenario", "rights", "finalizer", "twice", "status", "requests", "idle", "failing", "end-state",
]  # fmt: skip


class ExploreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The keywords of `explore`."""

    kinds: Annotated[
        Sequence[KindSource],
        "Kinds that are served beside the built-in ones: classes, files of CustomResourceDefinitions, and folders of "
        "such files.",
    ] = ()
    controllers: Annotated[
        Sequence[str | Callable[..., object]],
        "Other controllers that run in the cluster, without faults: names of plugins, such as `job`, or functions "
        "`setup(manager)`.",
    ] = ()
    finish_pods: Annotated[
        bool, "Whether every pod with another `restartPolicy` than `Always` succeeds after a second."
    ] = False
    deployments: Annotated[bool, "Whether Deployments, ReplicaSets and ReplicationControllers are reconciled."] = True
    invariants: Annotated[
        Sequence[Invariant],
        "Functions of a `State` that are called after every change of an object: they raise AssertionError, or return "
        "False, when the state is wrong.",
    ] = ()
    history_invariants: Annotated[
        Sequence[HistoryInvariant],
        "Functions of the steps of a run, a sequence of `Step`, that are called at its end: they raise AssertionError, "
        "or return False, when the history is wrong.",
    ] = ()
    without: Annotated[Collection[Oracle], "Oracles that are not asked, such as `idle`."] = ()
    most_requests: Annotated[
        Annotated[int, Meta(ge=0)],
        "How many requests a reconcile may take; 0 for four times as many as without a fault, and fifty at least.",
    ] = 0
    seconds: Annotated[
        Annotated[float, Meta(ge=0)],
        "How long the exploration may take, in seconds of real time; what is left out is in the report.",
    ] = 30.0
    runs: Annotated[
        Annotated[int, Meta(ge=0)], "How many runs with drawn faults and delays follow, if there is time."
    ] = 100
    only: Annotated[str, "The faults of one run, as a report names them: it is repeated, and nothing else tried."] = ""
