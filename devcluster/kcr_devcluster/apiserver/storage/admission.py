"""Admission: steps between the strategy of objects and the storage; they set fields, and refuse objects.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/interfaces.go, MutationInterface and ValidationInterface.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from kcr.clock import Clock
from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.options import ServiceAccounts
from kcr_devcluster.versions import DEFAULT, KubernetesVersion

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
_T = TypeVar("_T")
# Refuses an object with its defaults, given with the stored one, by raising StatusError.
Guard = Callable[[Manifest, Manifest | None], None]


class Reviews(Protocol):
    """The reviews of one request: the known answers by their input.

    Each method raises PendingError where the answer is not known yet, StatusError where the request is refused.
    """

    def mutate(self, attributes: "AdmissionAttributes", obj: Manifest, old: Manifest | None) -> Manifest:
        """Return the object with the changes and the defaults of the mutating phase; `obj` itself if there are none."""
        ...

    def reinvoke(self, attributes: "AdmissionAttributes", obj: Manifest, old: Manifest | None) -> Manifest:
        """Return the object after the second round of the mutating phase, for one that the first round has changed."""
        ...

    def validate(self, attributes: "AdmissionAttributes", obj: Manifest | None, old: Manifest | None) -> None:
        """Refuse the object, or do nothing."""
        ...

    def review_delete(self, attributes: "AdmissionAttributes", old: Manifest) -> None:
        """Refuse to delete an object, or do nothing."""
        ...


class RequestContext(NamedTuple):
    """The request that a write is part of. The default stands for a write of the server itself, which has no user.

    Attributes:
        user: Who sends it; None for the server itself, whose writes no webhook and no policy reviews.
        requested: The kind in the version that the request names; None for that of the object.
        options: The options of the request, such as `CreateOptions`, as admission reviews show them; empty where
            nothing reviews the request.
        dry_run: Whether nothing is stored.
        guard: Called before the object is prepared and validated, and may refuse it; None for no check.
        reviews: The reviews of webhooks and policies; None where there are none.
        is_collection: Whether the request is for a collection, and names no object.
    """

    user: User | None = None
    requested: Kind | None = None
    options: Manifest = {}
    dry_run: bool = False
    guard: Guard | None = None
    reviews: Reviews | None = None
    is_collection: bool = False


IN_PROCESS = RequestContext()


class AdmissionAttributes(NamedTuple):
    """The attributes of a write, by which admission decides.

    Attributes:
        operation: `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
        kind: The kind by whose rules the object is written; the objects at hand are of this kind.
        requested: The kind in the version that the request names: the same, or a view of it.
        name: The name in the request, `""` where it is to be generated.
        namespace: The namespace, `""` for none; that of a Namespace is its own name.
        called: The name in messages: the name, or the prefix of a generated one.
        subresource: The subresource that is written, `""` for the object itself.
        context: The request.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/attributes.go.
    """

    operation: str
    kind: Kind
    requested: Kind
    name: str
    namespace: str
    called: str
    subresource: str
    context: RequestContext

    @property
    def user(self) -> User | None:
        """Who sends the request; None for the server itself."""
        return self.context.user

    @property
    def dry_run(self) -> bool:
        """Whether nothing is stored."""
        return self.context.dry_run

    @property
    def options(self) -> Manifest:
        """The options of the request, such as `CreateOptions`."""
        return self.context.options


def review_sent(
    attributes: AdmissionAttributes,
    obj: Manifest,
    old: Manifest | None = None,
    result: Callable[[Manifest], Manifest] = lambda changed: changed,
) -> Manifest:
    """Take an object through both phases of reviews, where nothing is between them: it is sent, and not stored.

    Args:
        attributes: The write.
        obj: The object.
        old: The object before, if there is one.
        result: Makes the object that is validated of the mutated one.

    Returns:
        The object with changes; `obj` itself if there are none.

    Raises:
        PendingError: An answer is not known yet.
        StatusError: It is refused.
    """
    reviews = attributes.context.reviews
    if reviews is None:
        return obj
    changed = reviews.mutate(attributes, obj, old)
    if changed is not obj:
        changed = reviews.reinvoke(attributes, changed, old)
    reviews.validate(attributes, result(changed), old)
    return changed


class AdmissionContext(NamedTuple):
    """The context from which a server makes its admission steps.

    Attributes:
        storage: The objects.
        clock: The time.
        random: The source of generated names.
        kinds: The built-in kinds that are served.
        accounts: Whether pods have service accounts, and containers a token of theirs, in a volume.
        protects_volumes: Whether volumes get finalizers while in use: where controllers remove these again.
        version: The version of Kubernetes.
    """

    storage: Storage
    clock: Clock
    random: Random
    kinds: tuple[Kind, ...]
    accounts: ServiceAccounts = "none"
    protects_volumes: bool = False
    version: KubernetesVersion = DEFAULT


class AdmissionStep:
    """A step of admission: overrides the methods it needs, and refuses an object by StatusError.

    Attributes:
        kinds: The kinds of the objects that it sees; None for all.
    """

    kinds: tuple[Kind, ...] | None = None

    def __init__(self, context: AdmissionContext) -> None:
        self._storage = context.storage

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set fields that a new object does not state, before its strategy prepares it.

        Args:
            attributes: The write.
            obj: The object, with its defaults.
        """

    def admit_prepared(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set fields that a new object does not state, after its strategy has prepared it."""

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Refuse a new object, or allocate resources for it; its strategy has validated it."""

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Refuse a new version of an object, or allocate resources for it; writes of subresources are not checked.

        Args:
            attributes: The write.
            obj: The new version, validated.
            old: The stored one.
        """

    def warnings(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest | None) -> list[str]:
        """Return texts for `Warning` headers about an object that is accepted; `old` is None on create."""
        return []


class AdmissionChain(NamedTuple):
    """The steps that objects of one kind pass, in order: those that see the kind, and override the method.

    Attributes:
        admits: `AdmissionStep.admit`, and so on.
        admits_prepared: See there.
        checks: See there.
        update_checks: See there.
        warners: See there.
    """

    admits: tuple[Callable[[AdmissionAttributes, Manifest], None], ...]
    admits_prepared: tuple[Callable[[AdmissionAttributes, Manifest], None], ...]
    checks: tuple[Callable[[AdmissionAttributes, Manifest], None], ...]
    update_checks: tuple[Callable[[AdmissionAttributes, Manifest, Manifest], None], ...]
    warners: tuple[Callable[[AdmissionAttributes, Manifest, Manifest | None], list[str]], ...]


def chain_of(steps: Sequence[AdmissionStep], kind: Kind) -> AdmissionChain:
    """Return the methods that objects of a kind pass: a create takes 75 us, and each call counts."""
    base = AdmissionStep
    # By type: some servers have kinds with a strategy of their own.
    seen = [one for one in steps if one.kinds is None or kind.type in {known.type for known in one.kinds}]
    return AdmissionChain(
        tuple(one.admit for one in seen if type(one).admit is not base.admit),
        tuple(one.admit_prepared for one in seen if type(one).admit_prepared is not base.admit_prepared),
        tuple(one.check for one in seen if type(one).check is not base.check),
        tuple(one.check_update for one in seen if type(one).check_update is not base.check_update),
        tuple(one.warnings for one in seen if type(one).warnings is not base.warnings),
    )
