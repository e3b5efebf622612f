"""The cluster in a box: API server, garbage collector and a node, in one process."""

from kcr.cluster.cluster import EmbeddedCluster
from kcr.cluster.transport import InProcessTransport

__all__ = ["EmbeddedCluster", "InProcessTransport"]
