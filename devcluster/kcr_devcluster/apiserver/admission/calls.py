"""One call of one webhook: dry runs, time limits, responses, and the policy for failures.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go;
k8s.io/apimachinery/pkg/api/errors/errors.go, NewGenericServerResponse.
"""

import asyncio
import logging
from random import Random

import msgspec

from kcr_devcluster.apiserver.admission.caller import (
    NoClientError,
    WebhookCaller,
    WebhookCallError,
    target_of,
)
from kcr_devcluster.apiserver.admission.configurations import Webhook
from kcr_devcluster.apiserver.admission.metrics import AdmissionMetrics, CallLabels
from kcr_devcluster.apiserver.admission.objects import MutatingReview, Review
from kcr_devcluster.apiserver.admission.review import (
    VERSIONS,
    DeniedError,
    InvalidResponseError,
    ReviewResponse,
    decode_response,
    denial,
    encode_request,
    quoted,
    verified,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, internal
from kcr_devcluster.apiserver.registry.metadata import new_uid

_WITHOUT_EFFECTS = ("None", "NoneOnDryRun")
_NO_CLIENT = "could not get REST client"
_UNREADABLE = "couldn't get version/kind; json parse error: "
_MEANINGS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# The codes that client-go takes for a success.
SUCCESS = range(200, 207)
# Here the body says it.
_IN_BODY = (403, 406, 415)
_log = logging.getLogger(__name__)


class CallFailedError(Exception):
    """A webhook has not answered as it should: the failure policy decides. Its text is the cause.

    Attributes:
        code: The HTTP status of the response; 503 where there is none, or it is invalid.
    """

    def __init__(self, message: str, code: int = 503) -> None:
        super().__init__(message)
        self.code = code


class WebhookCalls:
    """Calls webhooks.

    Attributes:
        metrics: Counts the calls.
    """

    def __init__(self, random: Random, caller: WebhookCaller) -> None:
        self._caller = caller
        self.metrics: AdmissionMetrics = AdmissionMetrics()
        self._random = random

    async def ask(self, webhook: Webhook, review: Review, kind: Kind) -> ReviewResponse | None:
        """Return the response of a webhook that admits a request.

        Args:
            webhook: The webhook.
            review: The objects; it gets the warnings of the response.
            kind: The kind in the version that the webhook has asked for.

        Returns:
            None where the call failed, and such failures are ignored.

        Raises:
            StatusError: The webhook denies the request, or 500, the call failed; 400, it supports no dry run.
        """
        type_ = "admit" if isinstance(review, MutatingReview) else "validating"
        labels = CallLabels(webhook.name, type_, review.attributes.operation)
        time = asyncio.get_running_loop().time
        started, code, error_type, ignored = time(), 200, "", False
        try:
            return await self._ask(webhook, review, kind)
        except CallFailedError as error:
            words = f"failed calling webhook {quoted(webhook.name)}: {error}"
            code, error_type, ignored = error.code, "calling_webhook_error", webhook.ignores_failures
            if ignored:
                _log.warning("Failed calling webhook, failing open %s: %s", webhook.name, words)
                return None
            raise internal(words) from None
        except DeniedError as error:
            code, error_type = error.code, "no_error"
            raise
        except StatusError:
            code, error_type = 0, "apiserver_internal_error"
            raise
        finally:
            self.metrics.observe(labels, time() - started, code, error_type, ignored=ignored)

    async def _ask(self, webhook: Webhook, review: Review, kind: Kind) -> ReviewResponse:
        if review.attributes.dry_run and webhook.side_effects not in _WITHOUT_EFFECTS:
            raise bad_request(f"admission webhook {quoted(webhook.name)} does not support dry run")
        response = await self._call(webhook, review, kind)
        review.warnings += filter(None, response.warnings or ())
        if not response.allowed:
            raise denial(webhook.name, response.status)
        return response

    async def _call(self, webhook: Webhook, review: Review, kind: Kind) -> ReviewResponse:
        version = next((one for one in webhook.review_versions if one in VERSIONS), None)
        if version is None:
            words = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallFailedError(f"could not create admission objects: {words}")
        uid = new_uid(self._random)
        try:
            objects = await review.versioned(kind)
        except StatusError as error:
            raise unpatchable(error) from None
        body = encode_request(version, uid, review.attributes, kind, objects)
        status, answer = await self._send(webhook, body)
        if status not in SUCCESS:
            raise CallFailedError(f"failed to call webhook: {meaning(status, answer)}", status)
        try:
            decoded = decode_response(answer, version, status)
        except InvalidResponseError as error:
            raise CallFailedError(f"failed to call webhook: {error}") from None
        except msgspec.ValidationError as error:
            raise CallFailedError(f"failed to call webhook: json: cannot unmarshal: {error}") from None
        except (ValueError, RecursionError) as error:
            raise CallFailedError(f"failed to call webhook: {_UNREADABLE}{error}") from None
        try:
            return verified(decoded, version, uid, is_mutating=isinstance(review, MutatingReview))
        except InvalidResponseError as error:
            raise CallFailedError(f"received invalid webhook response: {error}") from None

    async def _send(self, webhook: Webhook, body: bytes) -> tuple[int, bytes]:
        try:
            target, seconds = target_of(webhook.client_config), webhook.timeout_seconds
        except NoClientError as error:
            raise CallFailedError(f"{_NO_CLIENT}: {error}") from None
        sent = f'failed to call webhook: Post "{target.url(seconds)}"'
        deadline = asyncio.timeout(seconds)
        try:
            async with deadline:
                return await self._caller.call(webhook.client_config, body, seconds)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise CallFailedError(f"{sent}: context deadline exceeded") from None
        except NoClientError as error:
            raise CallFailedError(f"{_NO_CLIENT}: {error}") from None
        except WebhookCallError as error:
            raise CallFailedError(f"{sent}: {error}") from None


def meaning(status: int, body: bytes) -> str:
    """Return the meaning of a status that is no success, or the message of the Status in the body."""
    if message := _status_message(body):
        return message
    text = "unknown" if body.lstrip()[:1] == b"{" else body.decode("utf-8", "replace").strip() or "unknown"
    if status in _MEANINGS:
        return _MEANINGS[status]
    if status in _IN_BODY:
        return text
    if status >= 500:
        return f"an error on the server ({quoted(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _status_message(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return ""
    is_status = isinstance(found, dict) and found.get("kind") == "Status" and found.get("status") != "Success"
    return str(found.get("message") or "") if is_status else ""


def unpatchable(error: StatusError | str) -> StatusError:
    """500: an object cannot be converted for a webhook, or its patch does not apply, or leaves no object."""
    return internal(error if isinstance(error, str) else error.message)
