"""Signer of client certificates: `kubernetes.io/kube-apiserver-client`.

Signs the requests that an approver has approved. Requests of other signers are left to their own controllers.

Source: kubernetes/pkg/controller/certificates/signer/signer.go, handle, isKubeAPIServerClient and duration.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from kcr.api.meta import Key, Object, whole_seconds
from kcr.api.unstructured import Unstructured, unstructured
from kcr.clock import SystemClock
from kcr.controller import Result, watch
from kcr.errors import ConflictError, NotFoundError
from kcr.informer import Selection
from kcr.manager import Manager
from kcr_devcluster.apiserver.kinds.access.certificates import APPROVED, CLIENT_SIGNER, DENIED, FAILED
from kcr_devcluster.cluster.client_certificates import ClientAuthority

_Request = unstructured(
    "certificates.k8s.io/v1", "CertificateSigningRequest", plural="certificatesigningrequests", namespaced=False
)
_CLIENT_AUTH = "client auth"
_ALLOWED = ("digital signature", "key encipherment", _CLIENT_AUTH)


class _Spec(Object):
    request: str
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None


class _Condition(Object):
    type: str


class _Status(Object):
    conditions: tuple[_Condition, ...] = ()
    certificate: str = ""


def usage_fault(usages: Sequence[str]) -> str:
    """Return why usages are not those of a client certificate, `""` if they are."""
    for usage in usages:
        if usage not in _ALLOWED:
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT_AUTH in usages else f"missing required usage for client certificate: {_CLIENT_AUTH}"


class SignerReconciler:
    """Reconciles one certificate signing request; idempotent."""

    def __init__(self, manager: Manager, authority: ClientAuthority) -> None:
        """Make a signer.

        Args:
            manager: The manager.
            authority: Signs the certificates.
        """
        self._client = manager.client
        self._clock = manager.clock
        self._authority = authority
        self._requests = manager.store(_Request)

    async def reconcile(self, key: Key) -> Result:
        """Sign the request when it is approved, or say why it cannot be signed."""
        request = self._requests.get(key)
        if request is None:
            return Result()
        status = request.get("status", _Status) or _Status()
        types = {condition.type for condition in status.conditions}
        if APPROVED not in types or types & {DENIED, FAILED} or status.certificate:
            return Result()
        with suppress(ConflictError, NotFoundError):  # changed or deleted meanwhile: a watch event follows
            await self._sign(request)
        return Result()

    async def _sign(self, request: Unstructured) -> None:
        spec = request.get("spec", _Spec)
        assert spec is not None
        if fault := usage_fault(spec.usages):
            await self._fail(request, fault)
            return
        lifetime = None if spec.expiration_seconds is None else timedelta(seconds=spec.expiration_seconds)
        # Clients check the dates by the machine's clock, whatever the time of the cluster is.
        pem = self._authority.sign(b64decode(spec.request).decode(), spec.usages, lifetime, SystemClock().now())
        await self._write(request, {"certificate": b64encode(pem.encode()).decode()})

    async def _fail(self, request: Unstructured, fault: str) -> None:
        now = whole_seconds(self._clock.now())
        failed = {
            "type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": fault,
            "lastUpdateTime": now, "lastTransitionTime": now,
        }  # fmt: skip
        await self._write(request, {"conditions": [*(request.get("status") or {}).get("conditions", ()), failed]})

    async def _write(self, request: Unstructured, status: dict[str, object]) -> None:
        version = {"resourceVersion": request.metadata.resource_version}
        await self._client.merge_patch(
            _Request, request.key, {"metadata": version, "status": status}, subresource="status"
        )


def setup(manager: Manager, authority: ClientAuthority) -> None:
    """Add the signer to a manager, which may be running.

    Args:
        manager: The manager.
        authority: Signs the certificates.
    """
    manager.select(Selection(_Request, fields=f"spec.signerName={CLIENT_SIGNER}"))
    manager.add_controller("csrsigning", SignerReconciler(manager, authority), watches=[watch(_Request)])
