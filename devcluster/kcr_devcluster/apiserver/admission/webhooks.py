"""The plugins of webhooks: the mutating ones are called one after another, the validating ones all at once.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/{dispatcher,
reinvocationcontext}.go; pkg/admission/plugin/webhook/validating/dispatcher.go.
"""

import asyncio
from typing import Any

from kcr_devcluster.apiserver.admission.calls import WebhookCalls, unpatchable
from kcr_devcluster.apiserver.admission.configurations import Webhook
from kcr_devcluster.apiserver.admission.matching import Matcher
from kcr_devcluster.apiserver.admission.objects import MutatingReview, Review
from kcr_devcluster.apiserver.admission.reinvocation import Reinvocation
from kcr_devcluster.apiserver.admission.review import JSON_PATCH, quoted
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.patch import json_patch, with_raw_values
from kcr_devcluster.apiserver.protocol.gojson import decode_json, kind_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError, internal

_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")
_UNREADABLE = "json: cannot unmarshal {} into Go value of type jsonpatch.{}"
_NAME = "MutatingAdmissionWebhook"


class MutatingWebhooks:
    """Calls the webhooks of MutatingWebhookConfigurations."""

    def __init__(self, matcher: Matcher, calls: WebhookCalls) -> None:
        self.matcher = matcher
        self._calls = calls

    async def admit(self, review: MutatingReview) -> None:
        """Call the webhooks that match, and apply their patches.

        Raises:
            StatusError: One of them denies the request, or fails.
        """
        memory = Reinvocation.of(review, _NAME)
        for webhook in self.matcher.webhooks():
            kind = await self.matcher.match(webhook, review)
            if kind is None or not memory.calls(webhook.uid):
                continue
            changed = await self._call(webhook, review, kind)
            memory = memory.called(webhook.uid, changed=changed, is_reinvoked=webhook.is_reinvoked)
        memory.remember(review, _NAME)

    async def _call(self, webhook: Webhook, review: MutatingReview, kind: Kind) -> bool:
        """Call a webhook, and return whether it has changed the object."""
        response = await self._calls.ask(webhook, review, kind)
        if response is None or not response.patch:
            return False
        operations = _operations(webhook, response.patch)
        if not operations:
            return False
        obj, _ = await review.versioned(kind)
        if obj is None:
            raise internal(
                f"admission webhook {quoted(webhook.name)} attempted to modify the object, "
                "which is not supported for this operation"
            )
        if response.patch_type != JSON_PATCH:
            words = f"failed calling webhook {quoted(webhook.name)}: unsupported patch type"
            if webhook.ignores_failures:
                return False
            raise internal(f"{words} {quoted(response.patch_type or '')}")
        patched = _patched(obj, operations)
        try:
            return await review.change(kind, patched)
        except UndecodableError as error:
            raise unpatchable(error.text) from None
        except StatusError as error:
            raise unpatchable(error) from None


class ValidatingWebhooks:
    """Calls the webhooks of ValidatingWebhookConfigurations."""

    def __init__(self, matcher: Matcher, calls: WebhookCalls) -> None:
        self.matcher = matcher
        self._calls = calls

    async def validate(self, review: Review) -> None:
        """Call the webhooks that match, all at once.

        Raises:
            StatusError: The first denial or failure, in the order of the webhooks; all of them have answered.
            Exception: The first is a defect of this server.
        """
        found = [(webhook, await self.matcher.match(webhook, review)) for webhook in self.matcher.webhooks()]
        matching = [(webhook, kind) for webhook, kind in found if kind is not None]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._refusal(webhook, review, kind)) for webhook, kind in matching]
        refusals = [refusal for task in tasks if (refusal := task.result()) is not None]
        if refusals:
            raise refusals[0]

    async def _refusal(self, webhook: Webhook, review: Review, kind: Kind) -> Exception | None:
        try:
            await self._calls.ask(webhook, review, kind)
        except Exception as error:
            return error
        return None


def _operations(webhook: Webhook, patch: bytes) -> list[Any]:
    """Return the operations of a patch; none where it cannot be decoded, and failures are ignored.

    Raises:
        StatusError: 500, it cannot be decoded.
    """
    try:
        found = decode_json(patch)
    except (ValueError, RecursionError) as error:
        return _undecodable(webhook, str(error))
    if found is None:
        return []
    if not isinstance(found, list):
        return _undecodable(webhook, _UNREADABLE.format(kind_of(found), "Patch"))
    for operation in found:
        if not isinstance(operation, dict | None):
            return _undecodable(webhook, _UNREADABLE.format(kind_of(operation), "Operation"))
    return with_raw_values(patch, [operation or {} for operation in found])


def _undecodable(webhook: Webhook, why: str) -> list[Any]:
    if webhook.ignores_failures:
        return []
    words = f"failed calling webhook {quoted(webhook.name)}: received undecodable patch in webhook response"
    raise unpatchable(f"{words}: {why}")


def _patched(obj: Manifest, operations: list[Any]) -> Manifest:
    """Return an object with a patch applied.

    Raises:
        StatusError: 500, it does not apply, and the message names the first operation that fails.
    """
    try:
        found = json_patch(obj, operations)
    except StatusError as error:
        raise unpatchable(_failing(obj, operations) or error) from None
    if not isinstance(found, dict):
        raise unpatchable("json: cannot unmarshal the patched document into an object")
    return found


def _failing(obj: Manifest, operations: list[Any]) -> str:
    for operation in operations:
        try:
            obj = json_patch(obj, [operation])
        except StatusError:
            name, path = operation.get("op") or "unknown", operation.get("path")
            if name not in _OPERATIONS:
                return f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}"
            if name == "test":
                return f"testing value {path} failed: test failed"
            if name == "remove" and (key := _missing_key(obj, path)):
                return f"error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value"
            return f'{name} operation does not apply: doc is missing path: "{path}": missing value'
    return ""


def _missing_key(obj: Manifest, path: Any) -> str:
    """Return the last key of a path that leads into a map, `""` for any other."""
    parent, _, key = str(path).rpartition("/")
    try:
        found = json_patch({"in": obj}, [{"op": "copy", "from": f"/in{parent}", "path": "/found"}])
    except StatusError:
        return ""
    return key.replace("~1", "/").replace("~0", "~") if isinstance(found["found"], dict) else ""
