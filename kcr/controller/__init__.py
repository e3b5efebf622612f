"""Controllers: sources of keys, the queue, the workers, and what follows a reconcile."""

from kcr.controller.controller import Controller
from kcr.controller.reconcile import Reconciler, Result
from kcr.controller.sources import Source, owned, watch

__all__ = ["Controller", "Reconciler", "Result", "Source", "owned", "watch"]
