"""The operator of the guide on conditions, and its tests in the guide on testing, as a reader would paste them."""

import re

import pytest

from tests.kit.documents import ROOT, blocks, files, run_tests_of

GUIDES = [ROOT / "docs" / "guide" / name for name in ("conditions.md", "testing.md")]
TESTS = """
import asyncio
import pytest
from kubernetes_asyncio.client import V1Job, V1ObjectMeta
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Secret
from kcr.testing import FakeManager, build
import kcr
from confirming import Mirror, setup as add_mirrors
from explained_setup import explain_website
from explaining import ExplainingReconciler
from typed import copy, suspend
from waiting import add_certificates
from website import Website, WebsiteSpec

@pytest.mark.kcr_virtual
async def test_typed_apis_of_the_guide():
    manager = FakeManager()
    await manager.client.create(build.job("pi", uid="", resource_version=""))
    job = await suspend(manager, "pi")
    assert job.spec.suspend
    job.spec.selector = job.spec.template.metadata.labels = None
    job.metadata, job.status = V1ObjectMeta(name="copy", namespace="default"), None
    assert (await copy(manager, job)).metadata.uid

@pytest.mark.kcr_virtual
async def test_explanation_of_the_guide():
    manager = FakeManager(kinds=[Website])
    shop = Website(metadata=kcr.ObjectMeta(name="shop", namespace="default"), spec=WebsiteSpec(text_from="texts"))
    manager.informer(Website).add(shop)
    reconciler = ExplainingReconciler(manager)
    assert (await reconciler.explain(shop.key)).headline == "waits for ConfigMap texts"
    manager.informer(ConfigMap).add(build.config_map("texts", {"text": "hello"}))
    assert (await reconciler.explain(shop.key)).headline == "is published"
    assert (await reconciler.explain(kcr.Key("default", "x"))).headline == "is not in the cache of its controller"
    told = await explain_website(manager.client, shop, (), manager.clock.now())
    assert told.reasons == ("ConfigMap default/shop-page does not exist",)

@pytest.mark.kcr_virtual
async def test_request_of_the_guide_is_confirmed():
    manager, key = FakeManager(kinds=[Mirror], follow_writes=True), kcr.Key("default", "a")
    add_mirrors(manager)
    async with manager.running():
        await manager.client.create(Mirror(metadata=kcr.ObjectMeta(name="a", namespace="default")))
        await manager.client.merge_patch(Mirror, key, {"metadata": {"annotations": {"kcr.dev/reconcile-at": "noon"}}})
        await asyncio.sleep(1)
        assert (await manager.client.get(Mirror, key)).status.last_handled_reconcile_at == "noon"

@pytest.mark.kcr_virtual
async def test_wait_of_the_guide():
    manager = FakeManager(kinds=[Website])
    shop = Website(metadata=kcr.ObjectMeta(name="shop", namespace="default"), spec=WebsiteSpec())
    manager.informer(Website).add(await manager.client.create(shop))
    add_certificates(manager)
    name = kcr.Key("default", "shop-tls")
    async with manager.running():
        await asyncio.sleep(60)
        assert manager.controllers["certificates"].waits.texts(0)[shop.key][0] == f"secrets {name}: has a certificate"
        issued = kcr.ObjectMeta(name="shop-tls", namespace="default")
        manager.informer(Secret).add(Secret(metadata=issued, data={"tls.crt": b""}))
        await asyncio.sleep(1)
        assert (await manager.client.get(Website, shop.key)).metadata.labels == {"tls": "shop-tls"}
"""


def test_every_block_of_code_is_run_by_a_test() -> None:
    assert not [block for guide in GUIDES for block in blocks(guide) if block.language and not block.file]


@pytest.mark.timeout(120)
def test_operator_passes_its_tests_at_three_heights(pytester: pytest.Pytester) -> None:
    pages = {name: text for guide in GUIDES for name, text in files(guide).items()}
    said = run_tests_of({**pages, "test_typed.py": TESTS}, pytester)
    assert re.search(r"^20 passed", said, re.MULTILINE), said
