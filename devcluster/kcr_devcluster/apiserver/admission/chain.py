"""The chain of admission: the reviews of a request, remembered by their input, and the plugins that make them.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/{chain,reinvocation}.go;
kubernetes/pkg/kubeapiserver/options/plugins.go, AllOrderedPlugins.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec

from kcr_devcluster.apiserver.admission.caller import InProcessCaller, WebhookCaller
from kcr_devcluster.apiserver.admission.calls import WebhookCalls
from kcr_devcluster.apiserver.admission.configurations import Configurations
from kcr_devcluster.apiserver.admission.matching import MatchConditions, Matcher
from kcr_devcluster.apiserver.admission.metrics import AdmissionMetrics
from kcr_devcluster.apiserver.admission.objects import MutatingReview, Review
from kcr_devcluster.apiserver.admission.rules import is_exempt
from kcr_devcluster.apiserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks
from kcr_devcluster.apiserver.kinds.catalogue import (
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import PendingError, replay
from kcr_devcluster.apiserver.protocol.responses import APIResponse, StatusError, add_warnings
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext
from kcr_devcluster.apiserver.storage.records import Change

# How long a request may take whose reviews are awaited, if it does not say less: `--request-timeout`.
REQUEST_SECONDS = 60.0
_CONFIGURATIONS = (
    MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS,
    VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS, VALIDATING_WEBHOOKS,
)  # fmt: skip


class RequestMatcher(Protocol):
    """Selects the requests that a plugin reviews."""

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to review; without configurations a plugin costs nothing else."""
        ...

    def concerns(self, attributes: AdmissionAttributes) -> bool:
        """Return whether the plugin may review a request, False where none of its rules matches."""
        ...


class MutatingPlugin(Protocol):
    """A plugin of the mutating phase."""

    @property
    def matcher(self) -> RequestMatcher:
        """Selects its requests."""
        ...

    async def admit(self, review: MutatingReview) -> None:
        """Change the object, or refuse the request by StatusError."""
        ...


class ValidatingPlugin(Protocol):
    """A plugin of the validating phase."""

    @property
    def matcher(self) -> RequestMatcher:
        """Selects its requests."""
        ...

    async def validate(self, review: Review) -> None:
        """Refuse the request by StatusError, or do nothing."""
        ...


class Admission:
    """The plugins of admission that await.

    Attributes:
        mutating: The plugins of the mutating phase, in their order: policies, then webhooks.
        validating: The plugins of the validating phase, in their order.
        served: The kinds that are served.
        caller: Calls webhooks: the handlers in this process that are added to it, and others through its fallback.
    """

    def __init__(
        self,
        context: AdmissionContext,
        served: ServedIndex,
        conditions: MatchConditions,
        policies: tuple[MutatingPlugin, ValidatingPlugin],
        caller: WebhookCaller | None,
    ) -> None:
        """Make the chain of a server.

        Args:
            context: The objects, the time and randomness.
            served: The kinds that are served.
            conditions: Evaluates the `matchConditions` of webhooks.
            policies: The plugins before webhooks.
            caller: The connections to webhooks; None for none.
        """
        storage = context.storage
        self.served: ServedIndex = served
        self.caller: InProcessCaller = InProcessCaller(caller)
        self._calls = WebhookCalls(context.random, self.caller)
        # None until the next write, after a change of the configurations.
        self._is_needed: bool | None = None
        for kind in _CONFIGURATIONS:
            storage.cache(kind).subscribers[self._forget] = None
        mutating, validating = (
            Matcher(Configurations(storage, kind), storage, served, conditions)
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        )
        self.mutating: tuple[MutatingPlugin, ...] = policies[0], MutatingWebhooks(mutating, self._calls)
        self.validating: tuple[ValidatingPlugin, ...] = policies[1], ValidatingWebhooks(validating, self._calls)

    @property
    def metrics(self) -> AdmissionMetrics:
        """The metrics of the calls."""
        return self._calls.metrics

    def begin(self) -> "RequestReviews | None":
        """Return the reviews of a new request, None where nothing reviews requests."""
        # Most servers have no configurations: a write costs them this one look.
        if self._is_needed is None:
            plugins: list[MutatingPlugin | ValidatingPlugin] = [*self.mutating, *self.validating]
            self._is_needed = any(plugin.matcher.is_needed for plugin in plugins)
        if not self._is_needed:
            return None
        return RequestReviews(self)

    def _forget(self, change: Change) -> None:
        self._is_needed = None


class _Mutated(NamedTuple):
    """The answer of the mutating phase: the object as JSON, None for no change, and the memory of the plugins."""

    body: bytes | None
    memory: dict[str, object]


class RequestReviews:
    """The reviews of one request: the known answers by their input.

    Attributes:
        warnings: The warnings of all reviews, for the response.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        # By phase, attributes and objects.
        self._mutated: dict[bytes, _Mutated] = {}
        self._valid: set[bytes] = set()
        # Of the first round of this attempt.
        self._memory: dict[str, object] = {}
        self.warnings: list[str] = []

    def mutate(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest | None) -> Manifest:
        """Return the object with the changes and the defaults of the mutating phase; `obj` itself if there are none."""
        self._memory = {}
        return self._mutate("mutate", attributes, obj, old)

    def reinvoke(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest | None) -> Manifest:
        """Return the object after the second round of the mutating phase."""
        return self._mutate("reinvoke", attributes, obj, old)

    def validate(self, attributes: AdmissionAttributes, obj: Manifest | None, old: Manifest | None) -> None:
        """Refuse the object, or do nothing."""
        plugins = [plugin for plugin in self._admission.validating if plugin.matcher.concerns(attributes)]
        if not plugins or is_exempt(attributes):
            return
        if not attributes.name and obj is not None:
            # A name that was generated between the phases.
            # Source: staging/src/k8s.io/apiserver/pkg/registry/rest/create.go, AdmissionToValidateObjectFunc.
            name = (obj.get("metadata") or {}).get("name", "")
            attributes = attributes._replace(name=name, called=name or attributes.called)
        key = _key("validate", attributes, obj, old)
        if key in self._valid:
            return

        async def review() -> None:
            made = Review(attributes, obj, old)
            try:
                for plugin in plugins:
                    await plugin.validate(made)
            finally:
                self.warnings += made.warnings
            self._valid.add(key)

        raise PendingError(review)

    def review_delete(self, attributes: AdmissionAttributes, old: Manifest) -> None:
        """Refuse to delete an object, or do nothing."""
        self._memory = {}
        self._mutate("mutate", attributes, None, old)
        self.validate(attributes, None, old)

    def _mutate(
        self, phase: str, attributes: AdmissionAttributes, obj: Manifest | None, old: Manifest | None
    ) -> Manifest:
        plugins = [plugin for plugin in self._admission.mutating if plugin.matcher.concerns(attributes)]
        if not plugins or is_exempt(attributes):
            return obj or {}
        key, memory = _key(phase, attributes, obj, old), dict(self._memory)
        found = self._mutated.get(key)
        if found is not None:
            self._memory = found.memory
            return (obj or {}) if found.body is None else msgspec.json.decode(found.body)

        async def review() -> None:
            made = MutatingReview(attributes, obj, old, memory, self._admission.served.version)
            try:
                for plugin in plugins:
                    await plugin.admit(made)
            finally:
                self.warnings += made.warnings
            body = msgspec.json.encode(made.obj) if made.is_changed else None
            self._mutated[key] = _Mutated(body, made.memory)

        raise PendingError(review)


def _key(phase: str, attributes: AdmissionAttributes, obj: Manifest | None, old: Manifest | None) -> bytes:
    """Return the input of a review as a key; the rest of the attributes is the same for the whole request."""
    return msgspec.json.encode((phase, attributes.operation, attributes.name, attributes.namespace, obj, old))


async def respond(
    reviews: RequestReviews | None, attempt: Callable[[], Awaitable[APIResponse]], seconds: float | None
) -> APIResponse:
    """Return the response to a request, with the warnings of its reviews.

    Args:
        reviews: Its reviews; None for none.
        attempt: Makes the request; again after each review that it waits for.
        seconds: The timeout of the request, None for that of the server.

    Raises:
        TimeoutError: The reviews took longer.
    """
    if reviews is None:
        return await attempt()
    async with asyncio.timeout(min(seconds or REQUEST_SECONDS, REQUEST_SECONDS)):
        try:
            response = await replay(attempt)
        except StatusError as error:
            response = error.response()
    return add_warnings(response, reviews.warnings)
