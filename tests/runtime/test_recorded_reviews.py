"""Reviews that a real API server has sent, answered by webhooks for typed kinds and for unstructured ones."""

import base64
import importlib
import json
from typing import Annotated, Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

import kcr
from kcr.api.meta import Resource
from kcr.api.unstructured import unstructured
from kcr.metrics import Metrics
from kcr.serving.webhooks import WebhookOptions, WebhookRequest, Webhooks
from kcr.serving.webhooks.webhooks import timeout_in
from kcr_devcluster.apiserver.patch import json_patch
from tests.kit.recorded_reviews import RecordedReview, converted, recorded_requests

R = TypeVar("R", bound=Resource)
Named = tuple[str, RecordedReview]


def by_kind() -> dict[str, list[Named]]:
    """Return the admission reviews with the names of their rows, by operation, kind and subresource."""
    found: dict[str, list[Named]] = {}
    for row in recorded_requests():
        for review in row.reviews:
            if review.webhook != "convert":
                kind, subresource = review.request["kind"], review.request.get("subResource", "")
                shown = (review.request["operation"], kind["group"], kind["version"], kind["kind"], subresource)
                found.setdefault("-".join(filter(None, shown)), []).append((row.name, review))
    return found


REVIEWS = by_kind()
CONVERSIONS = [
    (row.name, review) for row in recorded_requests() for review in row.reviews if review.webhook == "convert"
]


class WidgetStatus(kcr.Object):
    ready: int | None = None
    selector: str | None = None


class WidgetSpec(kcr.Object):
    size: int | None = None
    color: str | None = None
    shape: str | None = None


class WidgetV1Beta1Spec(kcr.Object):
    size: int | None = None
    colour: str | None = None
    shape: str | None = None


class Widget(kcr.Resource, api_version="example.dev/v1", plural="widgets"):
    spec: WidgetSpec | None = None
    status: WidgetStatus | None = None


class WidgetV1Beta1(kcr.Resource, api_version="example.dev/v1beta1", plural="widgets", kind="Widget"):
    spec: WidgetV1Beta1Spec | None = None
    status: WidgetStatus | None = None


@kcr.converts(WidgetV1Beta1, Widget)
def upgraded(old: WidgetV1Beta1) -> Widget:
    spec = old.spec
    new = None if spec is None else WidgetSpec(size=spec.size, color=spec.colour, shape=spec.shape)
    return Widget(metadata=old.metadata, spec=new, status=old.status)


@kcr.converts(Widget, WidgetV1Beta1)
def downgraded(new: Widget) -> WidgetV1Beta1:
    spec = new.spec
    old = None if spec is None else WidgetV1Beta1Spec(size=spec.size, colour=spec.color, shape=spec.shape)
    return WidgetV1Beta1(metadata=new.metadata, spec=old, status=new.status)


Text = Annotated[str, msgspec.Meta(min_length=1)]


class StrictSpec(kcr.Object):
    color: Text
    size: int
    shape: str | None = None


class StrictV1Beta1Spec(kcr.Object):
    colour: Text
    size: int
    shape: str | None = None


class Strict(kcr.Resource, api_version="example.dev/v1", plural="widgets", kind="Widget"):
    spec: StrictSpec
    status: WidgetStatus | None = None


class StrictV1Beta1(kcr.Resource, api_version="example.dev/v1beta1", plural="widgets", kind="Widget"):
    spec: StrictV1Beta1Spec
    status: WidgetStatus | None = None


@kcr.converts(StrictV1Beta1, Strict)
def strictly_upgraded(old: StrictV1Beta1) -> Strict:
    spec = StrictSpec(size=old.spec.size, color=old.spec.colour, shape=old.spec.shape)
    return Strict(metadata=old.metadata, spec=spec, status=old.status)


@kcr.converts(Strict, StrictV1Beta1)
def strictly_downgraded(new: Strict) -> StrictV1Beta1:
    spec = StrictV1Beta1Spec(size=new.spec.size, colour=new.spec.color, shape=new.spec.shape)
    return StrictV1Beta1(metadata=new.metadata, spec=spec, status=new.status)


class Observer:
    """Labels objects, and warns of all that it sees."""

    def default(self, obj: R, request: WebhookRequest) -> R | None:
        if request.operation == "CONNECT":
            return None
        labels = {**obj.metadata.labels, "reviewed": "yes"}
        return replace(obj, metadata=replace(obj.metadata, labels=labels))

    def validate_create(self, obj: Resource, request: WebhookRequest) -> str:
        return _seen(request, "", obj.metadata.name)

    def validate_update(self, old: Resource, new: Resource, request: WebhookRequest) -> str:
        return _seen(request, old.metadata.name, new.metadata.name)

    def validate_delete(self, old: Resource, request: WebhookRequest) -> str:
        return _seen(request, old.metadata.name, "")

    def validate_connect(self, options: Resource, request: WebhookRequest) -> str:
        return _seen(request, "", "")


def _seen(request: WebhookRequest, old: str, new: str) -> str:
    shown = (request.operation, request.user.name, bool(request.dry_run), request.options.get("kind"), old, new)
    return " ".join(map(str, shown))


def expected_warning(review: RecordedReview) -> str:
    request = review.request
    names = (
        ("", "")
        if request["operation"] == "CONNECT"
        else (((request[one] or {}).get("metadata") or {}).get("name", "") for one in ("oldObject", "object"))
    )
    kind = (request["options"] or {}).get("kind")
    return " ".join(map(str, (request["operation"], request["userInfo"]["username"], request["dryRun"], kind, *names)))


def typed(group: str, version: str, kind: str) -> type[Resource] | None:
    """Return the type of a kind that has one."""
    own: dict[str, type[Resource]] = {"v1": Widget, "v1beta1": WidgetV1Beta1}
    if group == "example.dev" and kind == "Widget":
        return own[version]
    name = f"{group.partition('.')[0] or 'core'}_{version}"
    try:
        found = getattr(importlib.import_module(f"kcr.api.full.{name}"), kind, None)
    except ImportError:
        return None
    return found if found is not None and hasattr(found, "resource") else None


def webhooks_for(review: RecordedReview, *, is_typed: bool) -> Webhooks | None:
    """Return the webhooks of the kind of a review; None where it has no type."""
    resource, subresource = review.request["resource"], review.request.get("subResource", "")
    kind = review.request["kind"]
    # Of the object that has the subresource, the review has the resource only.
    owner = {"pods": "Pod", "services": "Service", "nodes": "Node", "serviceaccounts": "ServiceAccount"}
    name = owner.get(resource["resource"], kind["kind"]) if subresource else kind["kind"]
    if subresource == "scale":
        name = {"deployments": "Deployment", "widgets": "Widget"}[resource["resource"]]
    group, version = resource["group"], resource["version"]
    api_version = f"{group}/{version}" if group else version
    found = typed(group, version, name) if is_typed else unstructured(api_version, name, plural=resource["resource"])
    if found is None:
        return None
    made = Webhooks(Metrics())
    made.add(found, Observer(), WebhookOptions(subresource=subresource))
    return made


CASES = [
    pytest.param(kind, is_typed, id=f"{kind}-{'typed' if is_typed else 'unstructured'}")
    for kind, reviews in REVIEWS.items()
    for is_typed in (True, False)
    if webhooks_for(reviews[0][1], is_typed=is_typed) is not None
]


@pytest.mark.asyncio
@pytest.mark.parametrize(("kind", "is_typed"), CASES)
async def test_reviews_are_answered(kind: str, is_typed: bool) -> None:
    for row, review in REVIEWS[kind]:
        webhooks = webhooks_for(review, is_typed=is_typed)
        assert webhooks is not None
        await check_answer(webhooks, row, review)


async def check_answer(webhooks: Webhooks, row: str, review: RecordedReview) -> None:
    """Have the webhooks of a kind answer a review."""
    is_mutating = review.webhook in ("mutate", "second")
    (rule,) = (one for one in webhooks.rules if one.is_mutating is is_mutating)
    status, answer = await answer_to(webhooks, rule.path, review)
    assert status == 200, (row, answer)
    assert answer["apiVersion"] == review.review["apiVersion"], row
    response = answer["response"]
    assert (response["uid"], response["allowed"]) == (review.request["uid"], True), (row, response)
    if not is_mutating:
        assert response["warnings"] == [expected_warning(review)], row
    elif review.request["operation"] in ("DELETE", "CONNECT"):
        assert "patch" not in response, row
    else:
        assert response["patchType"] == "JSONPatch", row
        obj = review.request["object"]
        patched: Any = json_patch(obj, json.loads(base64.b64decode(response["patch"])))
        metadata = obj.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), "reviewed": "yes"}
        assert patched == {**obj, "metadata": {**metadata, "labels": labels}}, row


async def answer_to(webhooks: Webhooks, path: str, review: RecordedReview) -> tuple[int, Any]:
    """Return the answer to a review."""
    query, body = review.target.partition("?")[2], json.dumps(review.review).encode()
    status, data = await webhooks.handle(path, timeout_in(query), body, review.headers["Content-Type"])
    return status, json.loads(data)


@pytest.mark.asyncio
async def test_conversions_are_answered() -> None:
    webhooks = Webhooks(Metrics())
    webhooks.add_conversion(Widget)
    for row, review in CONVERSIONS:
        status, answer = await answer_to(webhooks, "/convert", review)
        assert (status, answer["kind"], answer["response"]["uid"]) == (200, "ConversionReview", review.request["uid"])
        assert answer["response"]["result"] == {"status": "Success"}, row
        objects, desired = review.request["objects"], review.request["desiredAPIVersion"]
        assert answer["response"]["convertedObjects"] == [converted(one, desired) for one in objects], row


@pytest.mark.asyncio
async def test_parts_of_objects_are_converted() -> None:
    """For server-side apply the server converts the fields of one manager: required ones may be missing."""
    webhooks, parts = Webhooks(Metrics()), 0
    webhooks.add_conversion(Strict)
    for row, review in CONVERSIONS:
        status, answer = await answer_to(webhooks, "/convert", review)
        assert (status, answer["response"]["result"]) == (200, {"status": "Success"}), row
        desired = review.request["desiredAPIVersion"]
        zeros = {"size": 0, "color" if desired == "example.dev/v1" else "colour": ""}
        for old, new in zip(review.request["objects"], answer["response"]["convertedObjects"], strict=True):
            wanted = converted(old, desired)
            assert new == {**wanted, "spec": zeros | wanted.get("spec", {})}, row
            parts += new != wanted
    assert parts > 2
