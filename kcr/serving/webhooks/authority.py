"""Keeps self-made certificates in a Secret, and their authorities in configurations: the shell around `rotation`.

Each write has a precondition, so two processes that both believe to lead do no harm: one loses, and reads again.
"""

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from kcr.api.core import Secret, SecretData
from kcr.api.meta import Key, Object, ObjectMeta, Resource, ResourceView
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Right, rights
from kcr.errors import AlreadyExistsError, ApiError, ConflictError, KcrError, NotFoundError
from kcr.informer import ChangeHandler, InformerHandle
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.serving.webhooks import rotation
from kcr.serving.webhooks.conversion import INJECT_CA, WebhookService
from kcr.serving.webhooks.pem import CA, CERT, KEY, PREVIOUS, Issuer, parse, still_trusted
from kcr.serving.webhooks.rotation import Chain, Observed, decide
from kcr.tokenbucket import TokenBucket

LIFE = timedelta(days=365)
# Pauses after failures: doubled from the first to the last.
_RACE_PAUSE, _FIRST_PAUSE, _LAST_PAUSE = 0.05, 1.0, 30.0
# Clocks jump, and a watch may be late: everything is checked again after so long.
_MOST_PAUSE = 3600.0
# Steps that write: per second in the long run, and at once.
_STEPS = (0.2, 20)
_MANAGED_BY = {"app.kubernetes.io/managed-by": "kcr"}

_log = get_logger("kcr.webhooks")


class _ClientConfig(Object):
    ca_bundle: bytes = b""


class _Webhook(Object):
    client_config: _ClientConfig = _ClientConfig()


class _Configuration(ResourceView):
    webhooks: tuple[_Webhook, ...] = ()


class _Mutating(
    _Configuration, api_version="admissionregistration.k8s.io/v1", kind="MutatingWebhookConfiguration",
    plural="mutatingwebhookconfigurations", namespaced=False,
):  # fmt: skip
    """The part of a MutatingWebhookConfiguration that is read here."""


class _Validating(
    _Configuration, api_version="admissionregistration.k8s.io/v1", kind="ValidatingWebhookConfiguration",
    plural="validatingwebhookconfigurations", namespaced=False,
):  # fmt: skip
    """The same of a ValidatingWebhookConfiguration."""


class _ConversionWebhook(Object):
    client_config: _ClientConfig | None = None


class _Conversion(Object):
    webhook: _ConversionWebhook | None = None


class _Spec(Object):
    conversion: _Conversion = _Conversion()


class _Definition(
    ResourceView, api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition",
    plural="customresourcedefinitions", namespaced=False,
):  # fmt: skip
    """The same of a CustomResourceDefinition."""

    spec: _Spec = _Spec()


class ServingSecret(SecretData):
    """The Secret of the certificates."""


class _Stanza(NamedTuple):
    """A `clientConfig` of a configuration: its place, and its bundle."""

    path: str
    bundle: bytes


def certificate_rights(*, converts: bool) -> tuple[frozenset[Right], frozenset[Right]]:
    """Return the rights for certificates that kcr makes: in the namespace of the Service, and everywhere.

    Args:
        converts: Whether there are conversions.
    """
    kinds: tuple[type[Resource], ...] = (_Mutating, _Validating, *((_Definition,) if converts else ()))
    wanted = frozenset[Right]().union(*(rights(kind, "list", "watch", "patch") for kind in kinds))
    return rights(Secret, "get", "list", "watch", "create", "update"), wanted


class CertificateAuthority:
    """Makes, rotates and publishes the certificates of webhooks until cancelled; it runs on the leader."""

    name = "webhook certificates"

    def __init__(
        self, client: Client, service: WebhookService, clock: Clock,
        open_informer: Callable[[type[Any]], InformerHandle[Any]], *, converts: bool = False, life: timedelta = LIFE,
    ) -> None:  # fmt: skip
        """Make it.

        Args:
            client: Writes the Secret and the configurations.
            service: The Service of the webhooks, and the Secret.
            clock: The source of time.
            open_informer: Opens the informer of a kind: configurations are watched while this runs.
            converts: Whether there are conversions, whose CustomResourceDefinitions have a bundle as well.
            life: How long certificates are valid.
        """
        self.key: Key = Key(service.namespace, service.secret or service.name)
        self._client = client
        self._clock = clock
        self._open_informer = open_informer
        self._kinds: tuple[type[Resource], ...] = (_Mutating, _Validating, *((_Definition,) if converts else ()))
        self._issuer = Issuer(host_names(service), life)
        self._changed = asyncio.Event()
        self._writes = TokenBucket(*_STEPS)
        self._failures = RateLimitedLogger(_log)
        # The Secret as it was seen last, or made for a missing one.
        self._draft: dict[str, bytes] = {}
        # The authority, and since when, in the loop's time, all configurations have it.
        self._trusted: tuple[bytes, float] | None = None
        self._stored: Secret | None = None
        self._configurations: dict[tuple[type[Resource], Key], tuple[str, tuple[_Stanza, ...]]] = {}

    async def run(self) -> None:
        """Keep the certificates until cancelled."""
        pause = 0.0
        async with AsyncExitStack() as stack:
            kinds: tuple[type[Any], ...] = (*self._kinds, ServingSecret)
            for kind in kinds:
                handle = self._open_informer(kind)
                stack.callback(handle.close)
                handle.add_handler(ChangeHandler(self._take_next_step, self._take_next_step))
            while True:
                self._changed.clear()
                try:
                    until = await self.step()
                    pause = 0.0
                except KcrError as error:
                    # Perhaps another client has written first. A webhook or a policy may also refuse it for long.
                    is_race = isinstance(error, ConflictError | AlreadyExistsError | NotFoundError)
                    pause = min(max(2 * pause, _RACE_PAUSE if is_race else _FIRST_PAUSE), _LAST_PAUSE)
                    until = self._clock.now() + timedelta(seconds=pause)
                    if pause >= _FIRST_PAUSE:
                        now = asyncio.get_running_loop().time()
                        self._failures.error(now, "webhook certificates not written, retrying", error=str(error))
                await self._wait(until)

    def _take_next_step(self, changed: Resource) -> None:
        if self._concerns(changed):
            self._changed.set()

    def _concerns(self, obj: Resource) -> bool:
        return isinstance(obj, ServingSecret) or obj.metadata.annotations.get(INJECT_CA) == str(self.key)

    async def _wait(self, until: datetime) -> None:
        seconds = min((until - self._clock.now()).total_seconds(), _MOST_PAUSE)
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def step(self) -> datetime:
        """Take one step, and return when to take the next one at the latest."""
        now = self._clock.now()
        observed = await self._observe(now)
        step = decide(observed, now)
        if isinstance(step, rotation.Wait):
            return step.until
        # Another controller may undo each of the steps.
        await asyncio.sleep(self._writes.reserve(asyncio.get_running_loop().time()))
        match step:
            case rotation.Draft():
                self._draft = self._issuer.authority(now) | {CERT: b"", KEY: b""}
            case rotation.Create():
                # Replicas may still serve the certificate of a Secret that was deleted.
                assert observed.draft is not None
                trusted = [*observed.draft.previous, *(one for bundle in observed.bundles for one in parse(bundle))]
                others = [one for one in trusted if one != observed.draft.authority]
                data = self._draft | {PREVIOUS: still_trusted(others, now)}
                metadata = ObjectMeta(namespace=self.key.namespace, name=self.key.name, labels=_MANAGED_BY)
                await self._client.create(Secret(metadata=metadata, data=data, type="kubernetes.io/tls"))
            case rotation.Publish(bundle):
                await self._publish(bundle)
            case _:
                await self._update(step, observed, now)
        if not isinstance(step, rotation.Draft):
            _log.info("webhook certificates", step=type(step).__name__.lower(), secret=str(self.key))
        return now

    async def _update(self, step: rotation.Step, observed: Observed, now: datetime) -> None:
        secret = self._stored
        assert secret is not None
        assert observed.stored is not None
        data = dict(secret.data)
        if isinstance(step, rotation.Rotate):
            trusted = [*parse(data.get(CA, b"")), *observed.stored.previous]
            trusted += [one for bundle in observed.bundles for one in parse(bundle)]
            data |= self._issuer.authority(now) | {PREVIOUS: still_trusted(trusted, now)}
        elif isinstance(step, rotation.Issue):
            data |= self._issuer.serving(data, now)
        else:
            data[PREVIOUS] = still_trusted(observed.stored.previous, now)
        await self._client.update(replace(secret, data=data))

    async def _publish(self, bundle: bytes) -> None:
        text, errors = base64.b64encode(bundle).decode(), list[ApiError]()
        for (kind, key), (version, stanzas) in self._configurations.items():
            if changes := [one.path for one in stanzas if one.bundle != bundle]:
                # With another version than the stored one, the server refuses the patch with 409.
                operations = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
                operations += [{"op": "add", "path": path, "value": text} for path in changes]
                try:
                    await self._client.json_patch(kind, key, operations)
                except ApiError as error:  # the others need it all the same
                    errors.append(error)
        if errors:
            raise errors[0]

    async def _observe(self, now: datetime) -> Observed:
        """Read everything from the server: decisions on a cache that lags could end in a loop."""
        # Before the Secret: with an older one, a newer bundle would be overwritten.
        self._configurations = {}
        for kind in self._kinds:
            for obj in await self._client.list(kind):
                if self._concerns(obj):
                    found = tuple(_stanzas(obj))
                    self._configurations[kind, obj.key] = (obj.metadata.resource_version, found)
        bundles = tuple(one.bundle for _, stanzas in self._configurations.values() for one in stanzas)
        try:
            self._stored = await self._client.get(Secret, self.key)
        except NotFoundError:
            self._stored = None
        chain: Chain | None = None
        if self._stored is not None:
            self._check_ours(self._stored)
            chain, self._draft = self._issuer.read(self._stored.data), dict(self._stored.data)
        draft = self._issuer.read(self._draft) if self._draft else None
        return Observed(chain, draft, bundles, self._trusted_since(chain, bundles, now))

    def _trusted_since(self, chain: Chain | None, bundles: tuple[bytes, ...], now: datetime) -> datetime | None:
        """Return since when all configurations have the authority; the clock may have jumped since."""
        loop_time = asyncio.get_running_loop().time()
        authority = chain and chain.authority
        if authority is None or any(authority.pem not in bundle for bundle in bundles):
            self._trusted = None
            return None
        if self._trusted is None or self._trusted[0] != authority.pem:
            self._trusted = (authority.pem, loop_time)
        return now - timedelta(seconds=loop_time - self._trusted[1])

    def _check_ours(self, secret: Secret) -> None:
        if secret.data and not _MANAGED_BY.items() <= secret.metadata.labels.items():
            raise KcrError(
                f"webhooks: Secret {secret.key} was not made by kcr: delete it, name another with "
                "--webhook-secret-name, or mount it and name its folder with --webhook-cert-dir"
            )


def host_names(service: WebhookService) -> tuple[str, ...]:
    """Return the names by which the API server, or a program on this machine, reaches a Service."""
    name = f"{service.name}.{service.namespace}"
    return f"{name}.svc", f"{name}.svc.cluster.local", name, service.name, "localhost"


def _stanzas(obj: Resource) -> Iterator[_Stanza]:
    if isinstance(obj, _Definition):
        webhook = obj.spec.conversion.webhook
        if webhook is not None and webhook.client_config is not None:
            yield _Stanza("/spec/conversion/webhook/clientConfig/caBundle", webhook.client_config.ca_bundle)
    elif isinstance(obj, _Configuration):
        for place, one in enumerate(obj.webhooks):
            yield _Stanza(f"/webhooks/{place}/clientConfig/caBundle", one.client_config.ca_bundle)
