"""An API server without sockets, clients or controllers: a request in, a response out."""

from kcr.apiserver.server import Server
from kcr.apiserver.storage.storage import Storage

__all__ = ["Server", "Storage"]
