"""Admission: steps between the strategy of objects and the storage; they set fields, and refuse objects.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/interfaces.go, MutationInterface and ValidationInterface.
"""

from random import Random
from typing import NamedTuple

from kcr.clock import Clock
from kcr_devcluster.apiserver.kinds.catalogue import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.storage import Storage


class AdmissionContext(NamedTuple):
    """The context from which a server makes its admission steps.

    Attributes:
        storage: The objects.
        clock: The time.
        random: The source of generated names.
        kinds: The built-in kinds that are served.
    """

    storage: Storage
    clock: Clock
    random: Random
    kinds: tuple[Kind, ...]


class AdmissionStep:
    """A step of admission: overrides the methods it needs, and refuses an object by StatusError."""

    def __init__(self, context: AdmissionContext) -> None:
        self._storage = context.storage

    def admit(self, kind: Kind, obj: Manifest, called: str) -> None:
        """Set fields that a new object does not state, before its strategy prepares it.

        Args:
            kind: Its kind.
            obj: The object, with its defaults.
            called: Its name in the request, or the prefix of a generated name.
        """

    def admit_prepared(self, kind: Kind, obj: Manifest) -> None:
        """Set fields that a new object does not state, after its strategy has prepared it."""

    def check(self, kind: Kind, obj: Manifest) -> None:
        """Refuse a new object, or allocate resources for it; its strategy has validated it."""

    def check_update(self, kind: Kind, obj: Manifest) -> None:
        """Refuse a new version of an object, or allocate resources for it; writes of subresources are not checked."""
