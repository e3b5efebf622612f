"""Local copies of kinds, kept right by watching the server."""

from kcr.informer.handlers import AsyncHandler, Handler
from kcr.informer.informer import Informer
from kcr.informer.registration import RESYNC_SECONDS, Registration
from kcr.informer.selection import Selection
from kcr.informer.store import Store

__all__ = ["RESYNC_SECONDS", "AsyncHandler", "Handler", "Informer", "Registration", "Selection", "Store"]
