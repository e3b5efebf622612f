"""Which webhooks a request is sent to.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go, ShouldCallHook.
"""

from collections.abc import Awaitable, Callable

from kcr_devcluster.apiserver.admission.configurations import Configurations, Webhook
from kcr_devcluster.apiserver.admission.objects import Review
from kcr_devcluster.apiserver.admission.rules import matched_kind, selects_namespace, selects_object
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes
from kcr_devcluster.apiserver.storage.storage import Storage

# Returns whether all conditions of a webhook hold for the objects in a version; raises StatusError where one cannot be
# evaluated, and the failure policy is not to ignore that.
MatchConditions = Callable[[Webhook, Review, Kind], Awaitable[bool]]


class Matcher:
    """Finds the webhooks of one kind of configuration that review a request."""

    def __init__(
        self, configurations: Configurations, storage: Storage, served: ServedIndex, conditions: MatchConditions
    ) -> None:
        self._conditions = conditions
        self._configurations = configurations
        self._storage = storage
        self._served = served
        # The answers of `concerns` by operation, kind, subresource and scope, and the state that they are for.
        self._concerned: dict[tuple[str, Kind, str, bool], bool] = {}
        self._concerned_for: tuple[tuple[Webhook, ...], int] = ((), 0)

    @property
    def is_needed(self) -> bool:
        """Whether there are any webhooks."""
        return not self._configurations.is_empty

    def webhooks(self) -> tuple[Webhook, ...]:
        """Return all webhooks, in the order in which they are called."""
        return self._configurations.webhooks()

    def concerns(self, attributes: AdmissionAttributes) -> bool:
        """Return whether the rules of a webhook match a request: most writes need no review, and no replay.

        Selectors and conditions do not count here: they may depend on the object.
        """
        webhooks = self.webhooks()
        if (webhooks, self._served.generation) != self._concerned_for:
            self._concerned_for = webhooks, self._served.generation
            self._concerned.clear()
        place = attributes.operation, attributes.requested, attributes.subresource, bool(attributes.namespace)
        found = self._concerned.get(place)
        if found is None:
            found = self._concerned[place] = any(
                matched_kind(webhook.rules, attributes, self._served, is_exact=webhook.is_exact) is not None
                for webhook in webhooks
            )
        return found

    async def match(self, webhook: Webhook, review: Review) -> Kind | None:
        """Return the kind in the version in which a webhook reviews a request, None where it does not.

        Raises:
            StatusError: The namespace does not exist, or a condition cannot be evaluated.
        """
        attributes, missing = review.attributes, None
        try:
            if not selects_namespace(webhook.namespace_selector, attributes, review.obj, self._storage):
                return None
        except StatusError as error:
            # It is the answer only where the rules match.
            missing = error
        if not selects_object(webhook.object_selector, review.obj, review.old):
            return None
        kind = matched_kind(webhook.rules, attributes, self._served, is_exact=webhook.is_exact)
        if kind is None:
            return None
        if missing is not None:
            raise missing
        if webhook.match_conditions and not await self._conditions(webhook, review, kind):
            return None
        return kind
