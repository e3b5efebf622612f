"""Embedded cluster: API server, controllers on kcr's own runtime, and a node, in one process."""

from kcr_devcluster.cluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.faults import FaultRule, ListenerFaults
from kcr_devcluster.transport import InProcessTransport

__all__ = ["EmbeddedCluster", "FaultRule", "InProcessTransport", "ListenerFaults"]
