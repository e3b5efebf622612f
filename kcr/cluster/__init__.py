"""Embedded cluster: API server, controllers on kcr's own runtime, and a node, in one process."""

from kcr.cluster.cluster import EmbeddedCluster
from kcr.cluster.faults import FaultRule, ListenerFaults
from kcr.cluster.transport import InProcessTransport

__all__ = ["EmbeddedCluster", "FaultRule", "InProcessTransport", "ListenerFaults"]
