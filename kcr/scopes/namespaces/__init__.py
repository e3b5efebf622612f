"""Namespaces that may change: watches come and go with them, without a restart.

`kcr.Namespaces` is the set that a program works in: names that `change` replaces, or the namespaces whose labels a
selector matches. Guarantees:

- *A namespace that comes* is listed and watched for each kind; its keys are reconciled once the caches of their
  controller are filled with it.
- *A namespace that leaves*: first, none of its keys is reconciled any more; running reconciles end, and unanswered
  creates are settled; then its watches are closed, its objects leave the stores, and the memory of its keys is dropped.
  So no reconcile of its keys sees a part of its objects.
- *One namespace never delays another*: where the rights are missing, that namespace is not ready, and a log line names
  the remedy; the others are reconciled.

Nothing is stored: after a restart, the present set is opened.
"""

from kcr.scopes.namespaces.namespaces import Namespaces

__all__ = ["Namespaces"]
