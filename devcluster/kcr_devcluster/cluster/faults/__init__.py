"""Faults of the listener: disturbs the requests of the cluster's HTTP clients, by rules.

A rule selects requests by verb, resource, name and number, and has one fault, named as in
`kcr.testing.FaultyTransport`. Only requests through the listener are disturbed: those of controllers in other processes
and languages, of kubectl, of pods. The cluster's own controllers and node call the server without it. Which rules take
a request is decided without I/O (`rules`); `listener_faults` applies them, and `endpoint` changes them while the
cluster runs.
"""

from kcr_devcluster.cluster.faults.bodies import ConnectionLostError
from kcr_devcluster.cluster.faults.files import read_faults
from kcr_devcluster.cluster.faults.listener_faults import ListenerFaults
from kcr_devcluster.cluster.faults.rules import FaultRule

__all__ = ["ConnectionLostError", "FaultRule", "ListenerFaults", "read_faults"]
