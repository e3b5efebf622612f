"""An API server without sockets, clients or controllers: a request in, a response out."""

from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage

__all__ = ["APIServer", "Storage"]
