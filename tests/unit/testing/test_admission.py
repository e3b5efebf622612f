"""`admit` calls one webhook alone."""

from time import process_time
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.apps import Scale, ScaleSpec
from kcr.api.core import ConfigMap
from kcr.client.context import WRITE_CONTEXT
from kcr.errors import Cause
from kcr.serving.webhooks import UserInfo
from kcr.testing import FakeManager, admit
from tests.kit.reviews import Website, WebsiteSpec

pytestmark = pytest.mark.kcr_virtual

SITE = Website(metadata=kcr.ObjectMeta(name="home", namespace="default"), spec=WebsiteSpec(image="nginx:1"))


class WebsiteWebhook:
    """Adds a tag to images, and denies the wrong ones."""

    async def default(self, obj: Website, request: kcr.WebhookRequest) -> Website | None:
        if ":" in obj.spec.image:
            return None
        return replace(obj, spec=replace(obj.spec, image=f"{obj.spec.image}:latest"))

    def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> list[str]:
        if obj.spec.image.endswith(":latest") and request.user.name != "alice":
            raise kcr.Denied("must not be latest", field="spec.image")
        return ["one replica is few"] if obj.spec.replicas == 1 else []

    def validate_update(self, old: Website, new: Website, request: kcr.WebhookRequest) -> None:
        if new.spec.replicas < old.spec.replicas:
            raise kcr.Denied(f"{request.namespace}/{request.name} shrinks")

    async def validate_delete(self, old: Website, request: kcr.WebhookRequest) -> None:
        if not request.dry_run:
            raise kcr.Denied("keep it")


def with_spec(**spec: Any) -> Website:
    return replace(SITE, spec=replace(SITE.spec, **spec))


async def test_admitted_object_comes_with_warnings() -> None:
    result = await admit(WebsiteWebhook(), SITE)
    assert (result.allowed, result.object, result.code) == (True, SITE, 200)
    assert result.warnings == ("one replica is few",)


async def test_validator_gets_the_object_that_default_has_changed() -> None:
    result = await admit(WebsiteWebhook(), with_spec(image="nginx"))
    assert (result.allowed, result.code, result.message) == (False, 422, "spec.image: must not be latest")
    assert result.causes == (Cause("spec.image", "FieldValueInvalid", "must not be latest"),)
    admitted = await admit(WebsiteWebhook(), with_spec(image="nginx"), user=UserInfo(name="alice"))
    assert admitted.object == with_spec(image="nginx:latest")


async def test_operation_follows_from_the_objects() -> None:
    shrunk = await admit(WebsiteWebhook(), SITE, old=with_spec(replicas=3))
    assert (shrunk.allowed, shrunk.code, shrunk.message) == (False, 403, "default/home shrinks")
    deleted = await admit(WebsiteWebhook(), old=SITE)
    assert (deleted.allowed, deleted.object) == (False, None)
    assert (await admit(WebsiteWebhook(), old=SITE, dry_run=True)).allowed
    with pytest.raises(ValueError, match="there is no object"):
        await admit(WebsiteWebhook())


async def test_subresource_is_reviewed_as_its_own_type() -> None:
    class MaxScale:
        def validate_update(self, old: Scale, new: Scale, request: kcr.WebhookRequest) -> None:
            assert request.subresource == "scale"
            if new.spec.replicas > 3:
                raise kcr.Denied("too many", field="spec.replicas")

    def scale(replicas: int) -> Scale:
        return Scale(metadata=SITE.metadata, spec=ScaleSpec(replicas=replicas))

    assert not (await admit(MaxScale(), scale(4), old=scale(1), subresource="scale")).allowed
    assert (await admit(MaxScale(), scale(3), old=scale(1), subresource="scale")).allowed


async def test_writes_of_a_dry_run_are_not_kept() -> None:  # WH-8
    manager = FakeManager()

    class Writes:
        async def default(self, obj: Website, request: kcr.WebhookRequest) -> None:
            await manager.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="made", namespace="default")))

    assert (await admit(Writes(), SITE, dry_run=True)).allowed
    assert await manager.client.list(ConfigMap) == ()
    assert not WRITE_CONTEXT.get().dry_run
    assert (await admit(Writes(), SITE)).allowed
    assert len(await manager.client.list(ConfigMap)) == 1


async def test_bug_of_the_webhook_is_raised() -> None:
    class Bug:
        def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> None:
            raise KeyError("image")

    with pytest.raises(KeyError, match="image"):
        await admit(Bug(), SITE)
    with pytest.raises(TypeError, match="admit: object has none of the methods"):
        await admit(object(), SITE)  # type: ignore[arg-type]  # as a type checker says


async def test_review_takes_less_than_ten_milliseconds() -> None:
    # What the guide promises of a webhook's test; CPU time, so that a loaded machine does not count.
    began = process_time()
    for _ in range(20):
        await admit(WebsiteWebhook(), with_spec(image="nginx"))
    assert (process_time() - began) / 20 < 0.01
