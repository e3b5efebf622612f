"""An API server without sockets, clients or controllers: a request in, a response out."""

from kcr.apiserver.server import APIServer
from kcr.apiserver.storage.storage import Storage

__all__ = ["APIServer", "Storage"]
