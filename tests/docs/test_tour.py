"""The guided tour, `help(kcr)`: its controller runs."""

import re

import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import is_controlled_by
from kcr.testing import FakeManager
from tests.kit.generated import imported

TOUR = re.findall(r"```python\n(.*?)```", kcr.__doc__ or "", re.DOTALL)


@pytest.mark.kcr_virtual
async def test_website_gets_its_configuration() -> None:
    manager = FakeManager()
    with imported(TOUR[0], "tour") as tour:
        informer = manager.informer(tour.Website)
        metadata = kcr.ObjectMeta(name="site", namespace="default", uid="u")
        website = informer.add(tour.Website(metadata=metadata, spec=tour.WebsiteSpec(image="nginx")))
        await tour.WebsiteReconciler(manager).reconcile(website.key)
        made = await manager.client.get(ConfigMap, website.key)
        assert made.data == {"image": "nginx"}
        assert is_controlled_by(made, website)
        assert kcr.crd_manifest(tour.Website)["metadata"]["name"] == "websites.example.dev"
        tour.setup(FakeManager())
