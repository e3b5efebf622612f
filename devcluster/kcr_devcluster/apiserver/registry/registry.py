"""The registry: the steps between a decoded body and the storage, the same for all kinds.

Everything here is synchronous: between reading the old version and storing the new one nothing else runs,
so a patch never loses a race.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go.
"""

from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import NamedTuple

from kcr.api.equality import same_json
from kcr.clock import Clock
from kcr_devcluster.apiserver.apply.tracking import Tracking, track
from kcr_devcluster.apiserver.kinds.catalogue import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PRIORITY_CLASSES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.priority_classes import SYSTEM_PRIORITY_CLASSES
from kcr_devcluster.apiserver.plugins import (
    DefaultIngressClass,
    DefaultStorageClass,
    DefaultTolerationSeconds,
    PersistentVolumeClaimResize,
    PodTopologyLabels,
    StorageObjectInUseProtection,
    TaintNodesByCondition,
)
from kcr_devcluster.apiserver.pod_security import PodSecurityAdmission
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.query import parse_integer
from kcr_devcluster.apiserver.protocol.replay import drawn
from kcr_devcluster.apiserver.protocol.responses import (
    STALE,
    StatusError,
    already_exists,
    conflict,
    forbidden,
    invalid,
    name_not_found_in_time,
    not_found,
)
from kcr_devcluster.apiserver.quota import LimitRangeAdmission, QuotaAdmission
from kcr_devcluster.apiserver.registry import metadata as meta
from kcr_devcluster.apiserver.registry.mutation import (
    HAS_VERSION,
    as_requested,
    as_sent,
    attributes_of,
    mutate_update,
    with_initial_fields,
)
from kcr_devcluster.apiserver.registry.priority import PriorityAdmission
from kcr_devcluster.apiserver.registry.runtime_classes import RuntimeClassAdmission
from kcr_devcluster.apiserver.registry.service_accounts import ServiceAccountAdmission
from kcr_devcluster.apiserver.registry.service_addresses import ServiceAddresses
from kcr_devcluster.apiserver.schema.builtin import type_of_kind
from kcr_devcluster.apiserver.schema.go_values import as_go
from kcr_devcluster.apiserver.storage.admission import (
    CREATE,
    IN_PROCESS,
    UPDATE,
    AdmissionAttributes,
    AdmissionChain,
    AdmissionContext,
    AdmissionStep,
    RequestContext,
    Reviews,
    chain_of,
)
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.go_numbers import stored_numbers

# A version has 64 bits.
_LAST_VERSION = 2**64 - 1
_VERSION_DIGITS = len(str(_LAST_VERSION))
_NAME_TRIES = 8
# The steps of admission. Their order is contract: a step sees the fields set by those before it, and the first refusal
# is the answer. Quotas come last, for an object that another step refuses uses nothing.
ADMISSION: tuple[type[AdmissionStep], ...] = (
    ServiceAddresses, LimitRangeAdmission, ServiceAccountAdmission, TaintNodesByCondition, PodSecurityAdmission,
    PriorityAdmission,
    DefaultTolerationSeconds, DefaultStorageClass, StorageObjectInUseProtection, PersistentVolumeClaimResize,
    RuntimeClassAdmission, DefaultIngressClass, PodTopologyLabels, QuotaAdmission,
)  # fmt: skip


class WriteResult(NamedTuple):
    """The result of a write.

    Attributes:
        record: The object after it.
        warnings: Texts for the `Warning` header.
        before: The object before it; None on create.
    """

    record: Record
    warnings: Sequence[str] = ()
    before: Manifest | None = None


class Registry:
    """Creates and updates objects of all kinds.

    Attributes:
        quotas: The admission step of quotas, which counts objects.
    """

    def __init__(self, context: AdmissionContext) -> None:
        self.storage: Storage = context.storage
        self.clock: Clock = context.clock
        self.random: Random = context.random
        steps = tuple(step(context) for step in ADMISSION)
        self.quotas: QuotaAdmission = next(one for one in steps if isinstance(one, QuotaAdmission))
        self._steps = steps
        self._chains: dict[Kind, AdmissionChain] = {}

    def _chain(self, kind: Kind) -> AdmissionChain:
        """Return the steps that objects of a kind pass."""
        # Custom kinds come and go, and all pass the same steps.
        known = kind if kind.custom is None else CUSTOM_RESOURCE_DEFINITIONS
        found = self._chains.get(known)
        if found is None:
            chain = chain_of(self._steps, known)
            # Without the last step, quotas: the reviews come before them.
            found = chain._replace(checks=tuple(one for one in chain.checks if one != self.quotas.check))
            self._chains[known] = found
        return found

    def create_priority_classes(self) -> None:
        """Create the priority classes of the system that are missing."""
        for manifest in SYSTEM_PRIORITY_CLASSES:
            if self.storage.get(PRIORITY_CLASSES, "", manifest["metadata"]["name"]) is None:
                self.create(PRIORITY_CLASSES, "", dict(manifest))

    def now(self) -> datetime:
        """Return the time of a request: the same one when it is replayed."""
        return drawn("now", self.clock.now)

    def _new_uid(self) -> str:
        return meta.new_uid(self.random)

    def find(self, kind: Kind, namespace: str, name: str) -> Record:
        """Return the newest version of an object.

        Raises:
            StatusError: 404, there is none.
        """
        record = self.storage.get(kind, namespace, name)
        if record is None:
            raise not_found(kind.type, name)
        return record

    def create(
        self,
        kind: Kind,
        namespace: str,
        given: Manifest,
        *,
        tracking: Tracking | None = None,
        context: RequestContext = IN_PROCESS,
    ) -> WriteResult:
        """Store a new object.

        Args:
            kind: Its kind.
            namespace: Its namespace, `""` for none.
            given: The object.
            tracking: Who applies it; None for a create, which keeps no managedFields.
            context: The request.

        Raises:
            StatusError: The object or its namespace does not allow it.
        """
        now = self.now()
        obj, warnings = meta.prepared(kind, given, namespace)
        metadata = obj["metadata"]
        self._check_namespace(kind, namespace, metadata.get("name", ""))
        if refusal := kind.strategy.create_refusal:
            raise forbidden(kind.type, metadata.get("name", ""), refusal)
        sent_revision = int(metadata["resourceVersion"]) if _is_version(metadata["resourceVersion"]) else 0
        if sent_revision and not context.dry_run:
            raise StatusError(500, "", HAS_VERSION)
        meta.set_initial_fields(metadata, drawn("uid", self._new_uid), now)
        attributes = attributes_of(CREATE, kind, metadata, "", context)
        self._generate_name(kind, metadata)
        # Missing, it is refused below together with the other field errors; strategies may count on it.
        metadata.setdefault("name", "")
        kind.strategy.default(obj)
        chain = self._chains.get(kind) or self._chain(kind)
        obj = self._admit(attributes, obj, chain)
        metadata = obj["metadata"]
        existing = self.storage.get(kind, metadata.get("namespace", ""), metadata["name"])
        if existing is not None:
            terminating = existing.metadata.deletion_timestamp is not None
            raise already_exists(kind.type, metadata["name"], terminating=terminating)
        warnings += kind.strategy.warnings(obj, None)
        for warn in chain.warners:
            warnings += warn(attributes, obj, None)
        if tracking is not None:
            track(kind, {"metadata": {}}, obj, tracking, timestamp(now))
        if context.dry_run:
            return WriteResult(self.storage.preview(kind, obj, sent_revision), warnings)
        return WriteResult(self.storage.put(kind, obj, None), warnings)

    def _admit(self, attributes: AdmissionAttributes, obj: Manifest, chain: AdmissionChain) -> Manifest:
        """Take a new object through admission and its strategy, and return it."""
        kind, context = attributes.kind, attributes.context
        for admit in chain.admits:
            admit(attributes, obj)
        if context.reviews is not None:
            obj = self._mutate_new(attributes, context.reviews, obj)
        if context.guard is not None:
            context.guard(obj, None)
        if kind.strategy.has_generation:
            obj["metadata"]["generation"] = 1
        kind.strategy.prepare_create(obj)
        for admit in chain.admits_prepared:
            admit(attributes, obj)
        self._raise_if_invalid(kind, obj, [*meta.validate(kind, obj["metadata"]), *kind.strategy.validate(obj)])
        kind.strategy.finish_create(obj)
        _leave_stored(kind, obj)
        for check in chain.checks:
            check(attributes, obj)
        if context.reviews is not None:
            context.reviews.validate(attributes, obj, None)
        self.quotas.check(attributes, obj)
        return obj

    def _mutate_new(self, attributes: AdmissionAttributes, reviews: Reviews, obj: Manifest) -> Manifest:
        """Return a new object as the reviews leave it; they see it without the fields that only the server sets."""
        shown = as_requested(attributes, obj)
        changed = reviews.mutate(attributes, shown, None)
        if changed is shown:
            return obj
        obj = with_initial_fields(attributes, changed, obj["metadata"])
        # A container that a webhook adds needs the token of its account like any other.
        for admit in self._chain(attributes.kind).admits:
            admit(attributes, obj)
        shown = as_requested(attributes, obj)
        changed = reviews.reinvoke(attributes, shown, None)
        return obj if changed is shown else with_initial_fields(attributes, changed, obj["metadata"])

    def update(
        self,
        old: Record,
        given: Manifest,
        tracking: Tracking,
        *,
        subresource: str = "",
        context: RequestContext = IN_PROCESS,
    ) -> WriteResult:
        """Store a new version of an object, or remove it when the update removes the last finalizer.

        A resourceVersion in `given` is a precondition; without one the last write wins. A write that
        changes nothing stores nothing.

        Args:
            old: The stored version.
            given: The object as it is to be.
            tracking: Who writes it.
            subresource: The subresource that it is written through, such as `status`; `""` for the object itself.
            context: The request.

        Raises:
            StatusError: The change is not allowed, or `old` is not the version that the client has.
        """
        kind, before = old.kind, old.manifest()
        new, warnings = self._with_kept_fields(old, given, before)
        kind.strategy.default(new)
        attributes = attributes_of(UPDATE, kind, before["metadata"], subresource, context)
        if context.reviews is not None:
            changed = mutate_update(attributes, context.reviews, as_sent(new, given), before)
            new, _ = self._with_kept_fields(old, changed, before)
        if context.guard is not None:
            context.guard(new, before)
        metadata = new["metadata"]
        rules = kind.strategy.update_rules(subresource)
        rules.prepare(new, before)
        errors = meta.validate_update(kind, metadata, before["metadata"], subresource) + rules.validate(new, before)
        self._raise_if_invalid(kind, new, errors)
        _leave_stored(kind, new)
        chain = self._chains.get(kind) or self._chain(kind)
        for check in chain.update_checks if not subresource else ():
            check(attributes, new, before)
        if rules.writes_spec and kind.strategy.has_generation and kind.strategy.is_new_generation(new, before):
            metadata["generation"] = before["metadata"].get("generation", 0) + 1
        if context.reviews is not None:
            context.reviews.validate(attributes, new, before)
        warnings += [] if subresource else kind.strategy.warnings(new, before)
        for warn in chain.warners if not subresource else ():
            warnings += warn(attributes, new, before)
        if tracking.is_needed(before, new):
            track(kind, before, new, tracking, timestamp(self.now()))
        return WriteResult(self.store(old, new, before, dry_run=context.dry_run), warnings, before)

    def _with_kept_fields(self, old: Record, given: Manifest, before: Manifest) -> tuple[Manifest, list[str]]:
        """Return a new version with the metadata that no update may change, and the warnings about the others."""
        new, warnings = meta.prepared(old.kind, given, old.metadata.namespace)
        metadata = new["metadata"]
        if metadata["resourceVersion"] not in ("", "0", before["metadata"]["resourceVersion"]):
            check_version(metadata["resourceVersion"])
            raise conflict(old.kind.type, old.metadata.name, STALE)
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
        meta.keep_server_fields(metadata, before["metadata"])
        return new, warnings

    def store(self, old: Record, new: Manifest, before: Manifest, *, dry_run: bool = False) -> Record:
        """Store a prepared version; nothing when it equals `before`, a removal when no finalizer is left."""
        if same_json(new, before) if old.kind.converter is None else self.storage.is_stored(old, new):
            return old
        if dry_run:
            return self.storage.preview(old.kind, new, old.revision)
        if should_delete(old.kind, new):
            removed = self.storage.remove(old)
            return self.storage.build_record(old.kind, new, removed.revision)
        return self.storage.put(old.kind, new, old)

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        """Refuse new objects in a namespace that is missing or terminating."""
        if not kind.type.namespaced:
            return
        found = self.find(NAMESPACES, "", namespace)
        if found.metadata.deletion_timestamp is None:
            return
        gone = f"namespace {namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": gone, "field": "metadata.namespace"}
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(kind.type, name, why, [cause])

    def _generate_name(self, kind: Kind, metadata: Manifest) -> None:
        """Draw a name for a `generateName`, a free one if there is any."""
        base = metadata.get("generateName", "")
        if metadata.get("name") or not base:
            return
        for _ in range(_NAME_TRIES):
            name = drawn("name", lambda: meta.generate_name(base, self.random))
            if self.storage.get(kind, metadata.get("namespace", ""), name) is None:
                metadata["name"] = name
                return
        raise name_not_found_in_time(kind.type, name)

    def _raise_if_invalid(self, kind: Kind, obj: Manifest, errors: Sequence[FieldError]) -> None:
        if errors:
            name = obj["metadata"].get("name", "")
            raise invalid(kind.type.kind, kind.type.group, name, [_as_go(kind, error) for error in errors])


def _as_go(kind: Kind, error: FieldError) -> FieldError:
    """Return an error of an object of a built-in kind that shows a list or an object as Go does."""
    of = type_of_kind(kind.type.api_version, kind.type.kind)
    if of is None or not isinstance(error.value, list | dict):
        return error
    return error._replace(value=as_go(of, error.field, error.value))


def _is_version(text: str) -> bool:
    """Return whether a text is a version of an object; a create may carry anything else."""
    digits = text.lstrip("0")
    return digits.isdecimal() and len(digits) <= _VERSION_DIGITS and int(digits) <= _LAST_VERSION


def check_version(text: str) -> None:
    """Refuse a text that is no version of an object.

    Raises:
        StatusError: 500.
    """
    try:
        parse_integer(text, "ParseUint")
    except StatusError as error:
        raise StatusError(500, "", error.message) from None


def should_delete(kind: Kind, obj: Manifest) -> bool:
    """Return whether an object is terminating and has neither finalizers nor a grace period."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return kind is not NAMESPACES or not (obj.get("spec") or {}).get("finalizers")


def _leave_stored(kind: Kind, obj: Manifest) -> None:
    """Leave of a custom resource what is stored: numbers as Go writes them, and fields of its storage version.

    Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go, schemaCoercingDecoder, which reads the
    stored objects.
    """
    if kind.custom is None:
        return
    obj.update(stored_numbers({name: value for name, value in obj.items() if name != "metadata"}))
    conversion = kind.conversion
    # Where a webhook converts, the response shows the stored object, converted back.
    if kind.converter is None and conversion is not None and not conversion.same_fields:
        conversion.to_hub(obj)
        conversion.from_hub(obj)
