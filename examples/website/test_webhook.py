"""The webhooks: alone, and in front of the API server; and the conversion, there and back."""

import pytest
from msgspec.structs import replace

import kcr
from examples.website.api import Website, WebsiteSpec
from examples.website.v1beta1 import WebsiteV1Beta1, WebsiteV1Beta1Spec
from examples.website.webhook import WebsiteWebhook, setup
from kcr.testing import FakeManager, VirtualClock, admit, build, check_round_trip
from kcr_devcluster.cluster import EmbeddedCluster


def website(name: str = "hello", *, title: str = "A greeting", replicas: int = 2, image: str = "python:3") -> Website:
    """Return a website that is not stored yet."""
    spec = WebsiteSpec(title=title, html="<h1>Hello</h1>", replicas=replicas, image=image)
    return Website(metadata=kcr.ObjectMeta(name=name, namespace="default"), spec=spec)


@pytest.fixture
def webhook() -> WebsiteWebhook:
    manager = FakeManager(kinds=[Website])
    manager.informer(Website).add(replace(website("other", title="Taken"), metadata=build.metadata("other")))
    return WebsiteWebhook(manager)


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("python", "python:3", id="no-tag"),
        pytest.param("localhost:5000/python", "localhost:5000/python:3", id="registry-with-port"),
        pytest.param("python:3.13", "python:3.13", id="tag"),
        pytest.param("python@sha256:1234", "python@sha256:1234", id="digest"),
    ],
)
async def test_image_without_a_tag_gets_one(webhook: WebsiteWebhook, image: str, expected: str) -> None:
    result = await admit(webhook, website(image=image))
    assert result.object is not None
    assert result.object.spec.image == expected


@pytest.mark.kcr_virtual
async def test_title_is_taken_once(webhook: WebsiteWebhook) -> None:
    assert (await admit(webhook, website())).allowed
    denied = await admit(webhook, website(title="Taken"))
    assert denied.message == "spec.title: other has this title: choose another one"
    assert (await admit(webhook, website("other", title="Taken"), old=website("other"))).allowed


@pytest.mark.kcr_virtual
async def test_website_without_pods_is_a_warning(webhook: WebsiteWebhook) -> None:
    result = await admit(webhook, website(replicas=0))
    assert (result.allowed, result.warnings) == (True, ("spec.replicas is 0: no pod serves the page",))


def test_conversion_keeps_everything() -> None:
    check_round_trip(WebsiteV1Beta1, Website)
    check_round_trip(Website, WebsiteV1Beta1)


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Website, WebsiteV1Beta1])
async def test_denial_reaches_the_client(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    manager = kcr.Manager(client, clock=kcr_clock)
    setup(manager)
    async with manager.running():
        created = await client.create(website(image="python"))
        assert created.spec.image == "python:3"
        with pytest.raises(kcr.InvalidError, match="hello has this title: choose another one"):
            await client.create(website("again"))
        older = await client.get(WebsiteV1Beta1, created.key)
        assert older.spec == WebsiteV1Beta1Spec(title="A greeting", page="<h1>Hello</h1>", replicas=2)
