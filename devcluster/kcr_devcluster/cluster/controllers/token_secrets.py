"""Token controller: fills Secrets of the type `kubernetes.io/service-account-token` with a token of their account.

The token is bound to the Secret, and does not run out in practice (136 years); upstream's has no end at all.

Source: kubernetes/pkg/controller/serviceaccount/tokens_controller.go, syncSecret.
"""

from collections.abc import Mapping
from contextlib import suppress

from kcr.api import codec
from kcr.api.core import Secret
from kcr.api.meta import Key, PartialObjectMetadata
from kcr.controller import Result, watch
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Selection
from kcr.manager import Manager
from kcr_devcluster.authentication import TokenRequest
from kcr_devcluster.cluster.controllers.service_accounts import ServiceAccountMetadata

TOKEN_SECRET = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
_ACCOUNT_UID = "kubernetes.io/service-account.uid"
_LONGEST_SECONDS = 1 << 32


class TokenSecretReconciler:
    """Reconciles one Secret; idempotent."""

    def __init__(self, manager: Manager, authority: str) -> None:
        """Make a token controller.

        Args:
            manager: The manager.
            authority: The certificate that clients trust, PEM.
        """
        self._client = manager.client
        self._authority = authority.encode()
        self._secrets = manager.store(Secret)
        self._secrets.add_index("account", lambda secret: (str(_account_of(secret)),))

    def secrets_of(self, account: PartialObjectMetadata) -> tuple[Key, ...]:
        """Return the keys of the Secrets of an account."""
        return tuple(secret.key for secret in self._secrets.by_index("account", str(account.key)))

    async def reconcile(self, key: Key) -> Result:
        """Add the data that the Secret lacks; delete it when its account is deleted, or another one has the name."""
        secret = self._secrets.get(key)
        if secret is None or secret.metadata.deletion_timestamp is not None:
            return Result()
        with suppress(ConflictError, NotFoundError):  # changed or deleted meanwhile: a watch event follows
            account = await self._account(secret)
            if account is None:
                await self._client.delete(Secret, key, uid=secret.metadata.uid)
            elif lacking := self._lacking(secret):
                await self._fill(secret, account, lacking)
        return Result()

    async def _account(self, secret: Secret) -> PartialObjectMetadata | None:
        # Read from the server: an account created just before the Secret may not be in a store yet.
        try:
            found = await self._client.get(ServiceAccountMetadata, _account_of(secret))
        except NotFoundError:
            return None
        uid = found.metadata.uid
        return found if secret.metadata.annotations.get(_ACCOUNT_UID, uid) == uid else None

    def _lacking(self, secret: Secret) -> Mapping[str, bytes]:
        """Return the data to write; the token itself, if it is missing, has an empty value."""
        wanted = {"ca.crt": self._authority, "namespace": secret.metadata.namespace.encode()}
        lacking = {name: value for name, value in wanted.items() if secret.data.get(name) != value}
        return lacking if secret.data.get("token") else {**lacking, "token": b""}

    async def _fill(self, secret: Secret, account: PartialObjectMetadata, lacking: Mapping[str, bytes]) -> None:
        data = dict(lacking)
        if "token" in data:
            data["token"] = (await self._token(secret)).encode()
        change = {
            "metadata": {
                "annotations": {_ACCOUNT_UID: account.metadata.uid},
                "resourceVersion": secret.metadata.resource_version,
            },
            "data": data,
        }
        await self._client.merge_patch(Secret, secret.key, change)

    async def _token(self, secret: Secret) -> str:
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret.metadata.name, "uid": secret.metadata.uid}
        body = {"spec": {"audiences": [], "boundObjectRef": bound, "expirationSeconds": _LONGEST_SECONDS}}
        account = _account_of(secret)
        path = ServiceAccountMetadata.resource.path(account.namespace, account.name, "token")
        answer = await self._client.request("POST", path, codec.encode(body))
        return codec.decode(TokenRequest, answer).status.token


def _account_of(secret: Secret) -> Key:
    return Key(secret.metadata.namespace, secret.metadata.annotations.get(ACCOUNT_NAME, ""))


def setup(manager: Manager, authority: str) -> None:
    """Add the token controller to a manager, which may be running.

    Args:
        manager: The manager.
        authority: The certificate that clients trust, PEM.
    """
    manager.select(Selection(Secret, fields=f"type={TOKEN_SECRET}"))
    reconciler = TokenSecretReconciler(manager, authority)
    gone = watch(ServiceAccountMetadata, map_to=reconciler.secrets_of, predicate=lambda _, new: new is None)
    manager.add_controller("serviceaccount-tokens", reconciler, watches=[watch(Secret), gone])
