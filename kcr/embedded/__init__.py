"""The cluster in a box: API server, garbage collector and a node, in one process."""

from kcr.embedded.cluster import EmbeddedCluster
from kcr.embedded.server import Server
from kcr.embedded.storage import Storage
from kcr.embedded.transport import InProcessTransport

__all__ = ["EmbeddedCluster", "InProcessTransport", "Server", "Storage"]
