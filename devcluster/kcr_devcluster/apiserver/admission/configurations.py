"""The webhooks of all configurations, in the order in which they are called.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage

_DEFAULT_TIMEOUT_SECONDS = 10


class Webhook(NamedTuple):
    """A webhook of a configuration, with the defaults of its fields.

    Attributes:
        uid: Unique among all webhooks, as long as its configuration keeps its order.
        name: Its name, for messages.
        configuration: The name of its configuration.
        client_config: Where it is served.
        rules: The requests that it reviews.
        ignores_failures: Whether a request continues when the webhook cannot be called (`failurePolicy: Ignore`).
        is_exact: Whether its rules match the version of the request only (`matchPolicy: Exact`).
        namespace_selector: Selects by the labels of the namespace; `{}` for all.
        object_selector: Selects by the labels of the object; `{}` for all.
        match_conditions: Expressions in CEL that all have to hold.
        side_effects: `None`, `NoneOnDryRun`, `Some` or `Unknown`.
        timeout_seconds: How long a call may take.
        review_versions: The versions of AdmissionReview that it understands.
        is_reinvoked: Whether it is called again when a later one changes the object.
    """

    uid: str
    name: str
    configuration: str
    client_config: Manifest
    rules: Sequence[Manifest]
    ignores_failures: bool
    is_exact: bool
    namespace_selector: Manifest
    object_selector: Manifest
    match_conditions: Sequence[Manifest]
    side_effects: str
    timeout_seconds: float
    review_versions: Sequence[str]
    is_reinvoked: bool


class Configurations:
    """The configurations of one kind, `Mutating-` or `ValidatingWebhookConfiguration`."""

    def __init__(self, storage: Storage, kind: Kind) -> None:
        self._cache = storage.cache(kind)
        # The records that the webhooks were read from; a change of any makes a new record.
        self._read: tuple[Record, ...] = ()
        self._webhooks: tuple[Webhook, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._cache.records

    def webhooks(self) -> tuple[Webhook, ...]:
        """Return the webhooks: by name of the configuration, then in the order of its list."""
        records = tuple(self._cache.records.values())
        if records != self._read:
            in_order = sorted(records, key=lambda record: record.metadata.name)
            self._webhooks = tuple(one for record in in_order for one in _webhooks_of(record))
            self._read = records
        return self._webhooks


def _webhooks_of(record: Record) -> list[Webhook]:
    configuration, found, seen = record.metadata.name, list[Webhook](), dict[str, int]()
    for webhook in record.manifest().get("webhooks") or ():
        name = webhook.get("name", "")
        # Names may repeat within a configuration; with the number of the repetition they do not.
        number = seen[name] = seen.get(name, -1) + 1
        found.append(
            Webhook(
                uid=f"{configuration}/{name}/{number}",
                name=name,
                configuration=configuration,
                client_config=webhook.get("clientConfig") or {},
                rules=webhook.get("rules") or (),
                ignores_failures=webhook.get("failurePolicy") == "Ignore",
                is_exact=webhook.get("matchPolicy") == "Exact",
                namespace_selector=webhook.get("namespaceSelector") or {},
                object_selector=webhook.get("objectSelector") or {},
                match_conditions=webhook.get("matchConditions") or (),
                side_effects=webhook.get("sideEffects") or "Unknown",
                timeout_seconds=webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_SECONDS,
                review_versions=webhook.get("admissionReviewVersions") or ("v1",),
                is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
            )
        )
    return found
