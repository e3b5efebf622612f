"""Conversion of custom resources by the webhook of their definition (`spec.conversion.strategy: Webhook`).

Synchronous code asks `converted`, which raises `PendingError` while the webhook has not been called for exactly these
objects: the request is replayed with the answer (`protocol.replay`). Watches await `convert`.

The webhook sees objects without their resourceVersion, as upstream, where the storage sets it after the conversion. So
the object that a write stores can be converted for the response before it is stored, and a failure stores nothing.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/conversion/{converter,webhook_converter}.go;
pkg/apiserver/customresource_handler.go, schemaCoercingConverter.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import msgspec

from kcr_devcluster.apiserver.admission.caller import WebhookCallError, target_of
from kcr_devcluster.apiserver.admission.calls import SUCCESS, meaning
from kcr_devcluster.apiserver.admission.chain import Admission
from kcr_devcluster.apiserver.admission.metrics import ConversionLabels
from kcr_devcluster.apiserver.apiextensions.conversion_review import (
    ReviewError,
    converted_objects,
    review_request,
    review_version,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest, in_order
from kcr_devcluster.apiserver.protocol.replay import PendingError, answer_to, remember
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.structural.shapes import StructuralShape, shape_of, without_defaults

TIMEOUT_SECONDS = 30.0
# Upstream sends each stored object alone. Here a list is one review, unless it is larger than webhooks like to read.
_LARGEST_REVIEW = 3 << 20

_encode = msgspec.json.Encoder().encode


class ConversionWebhook:
    """The webhook of one definition, as the server calls it."""

    def __init__(self, crd: Manifest, admission: Admission, new_uid: Callable[[], str]) -> None:
        """Make a webhook.

        Args:
            crd: The definition.
            admission: Has the caller of webhooks, and counts the calls.
            new_uid: Draws the uid of a review.
        """
        metadata, conversion = crd["metadata"], crd["spec"]["conversion"]
        # Distinguishes its reviews from those of others, and of the webhook before its definition changed.
        self.source = metadata["uid"], metadata["generation"]
        self._crd_name = metadata["name"]
        self._config: Manifest = conversion["webhook"]["clientConfig"]
        self._versions: Sequence[str] = conversion["webhook"]["conversionReviewVersions"]
        self._admission = admission
        self._new_uid = new_uid

    async def review(self, objects: Sequence[Manifest], desired: str) -> list[Manifest]:
        """Return objects in another version, as one review.

        Raises:
            StatusError: 500, the webhook failed.
        """
        time, is_done = asyncio.get_running_loop().time, False
        started = time()
        try:
            found = await self._reviewed(objects, desired)
            is_done = True
        finally:
            source, target = (one.rpartition("/")[2] for one in (objects[0]["apiVersion"], desired))
            labels = ConversionLabels(self._crd_name, source, target, is_done)
            self._admission.metrics.observe_conversion(labels, time() - started)
        return found

    async def _reviewed(self, objects: Sequence[Manifest], desired: str) -> list[Manifest]:
        source = f"{objects[0]['apiVersion']}, Kind={objects[0]['kind']}"
        try:
            version, uid = review_version(self._versions), self._new_uid()
        except ValueError as error:
            raise _failure(str(error)) from None
        try:
            status, body = await self._send(review_request(version, uid, desired, objects))
            if status not in SUCCESS:
                raise ReviewError(meaning(status, body))
            return converted_objects(version, uid, body, objects, desired)
        except ReviewError as error:
            verb = "failed:" if error.has_failed else "returned"
            raise _failure(f"conversion webhook for {source} {verb} {error}") from None

    async def _send(self, body: bytes) -> tuple[int, bytes]:
        try:
            target = target_of(self._config)
        except WebhookCallError as error:
            raise ReviewError(str(error)) from None
        deadline = asyncio.timeout(TIMEOUT_SECONDS)
        try:
            async with deadline:
                return await self._admission.caller.call(self._config, body, TIMEOUT_SECONDS)
        except TimeoutError:
            if not deadline.expired():
                raise
            why = "context deadline exceeded"
        except WebhookCallError as error:
            why = str(error)
        raise ReviewError(f'Post "{target.url(TIMEOUT_SECONDS)}": {why}')


def _failure(message: str) -> StatusError:
    # Upstream knows no reason for it.
    return StatusError(500, "", message)


class WebhookConverter:
    """Converts objects between the versions of a definition.

    Attributes:
        kinds: The kinds of all versions, served or not, by version, in which objects are stored.
    """

    def __init__(self, webhook: ConversionWebhook) -> None:
        self.kinds: dict[str, Kind] = {}
        self._webhook = webhook

    def converted(self, objects: Sequence[Manifest], version: str) -> list[Manifest]:
        """Return objects in a version, those that are in it as they are.

        Raises:
            PendingError: The webhook has to be called for some of them.
            StatusError: 500, one is in a version that the definition does not have.
        """
        asked = [self._question(one, version) for one in objects]
        answers = [None if question is None else answer_to(question) for question in asked]
        missing = [
            (question, one)
            for question, answer, one in zip(asked, answers, objects, strict=True)
            if question is not None and answer is None
        ]
        if missing:
            raise PendingError(partial(self._ask, missing, version))
        return [
            one if answer is None else _with_version(msgspec.json.decode(answer), one)
            for one, answer in zip(objects, answers, strict=True)
        ]

    async def convert(self, objects: Sequence[Manifest], version: str) -> list[Manifest]:
        """Return objects in a version, those that are in it as they are.

        Raises:
            StatusError: 500, the webhook failed, or does not know a version.
        """
        asked = [self._question(one, version) for one in objects]
        missing = [(question, one) for question, one in zip(asked, objects, strict=True) if question is not None]
        answers = await self._answers(missing, version)
        return [
            one if question is None else _with_version(msgspec.json.decode(answers[question]), one)
            for question, one in zip(asked, objects, strict=True)
        ]

    async def _ask(self, asked: Sequence[tuple[bytes, Manifest]], version: str) -> None:
        remember(await self._answers(asked, version))

    async def _answers(self, asked: Sequence[tuple[bytes, Manifest]], version: str) -> dict[Hashable, bytes]:
        """Return the webhook's answers by their questions: objects as JSON, without fields that the version lacks."""
        desired, shape = self.kinds[version].type.api_version, self._shapes[version]
        found: dict[Hashable, bytes] = {}
        for part in _parts(dict(asked)):
            made = await self._webhook.review([_unversioned(one) for one in part.values()], desired)
            found.update((question, _encode(shape.conform(one))) for question, one in zip(part, made, strict=True))
        return found

    def _question(self, obj: Manifest, version: str) -> bytes | None:
        """Return the question by which the answer for an object is remembered, None where it is in the version."""
        desired, given = self.kinds[version].type.api_version, obj["apiVersion"]
        if given == desired:
            return None
        if given.rpartition("/")[2] not in self.kinds:
            raise _failure(f"request to convert CR from an invalid group/version: {given}")
        return _encode((self._webhook.source, version, _unversioned(obj)))

    @cached_property
    def _shapes(self) -> Mapping[str, StructuralShape]:
        return {
            version: shape_of(without_defaults(kind.openapi_schema or {}), kind.type.kind, version)
            for version, kind in self.kinds.items()
        }


def _parts(asked: Mapping[bytes, Manifest]) -> Iterator[dict[bytes, Manifest]]:
    """Yield the questions in parts that one review can carry."""
    part: dict[bytes, Manifest] = {}
    size = 0
    for question, obj in asked.items():
        if part and size + len(question) > _LARGEST_REVIEW:
            yield part
            part, size = {}, 0
        part[question] = obj
        size += len(question)
    if part:
        yield part


def _unversioned(obj: Manifest) -> Manifest:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _with_version(converted: Manifest, obj: Manifest) -> Manifest:
    """Return a converted object with the resourceVersion of the one that was asked for."""
    if "resourceVersion" in obj["metadata"]:
        version = obj["metadata"]["resourceVersion"]
        converted["metadata"] = in_order({**converted["metadata"], "resourceVersion": version})
    return converted
