"""Local copies of kinds, kept right by watching the server."""

from kcr.informer.informer import Handler, Informer
from kcr.informer.reflector import Selection
from kcr.informer.store import Store

__all__ = ["Handler", "Informer", "Selection", "Store"]
