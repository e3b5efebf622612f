"""The example every newcomer copies, as a type checker sees it."""

from pathlib import Path

import pytest
from mypy import api

WEBSITE = """
import kcr
from kcr.api.apps import Deployment
from kcr.api.core import ConfigMap

class WebsiteSpec(kcr.Object):
    image: str
    replicas: int = 1

class WebsiteStatus(kcr.Object):
    ready: int | None = None

class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()

def websites_of(config: ConfigMap) -> tuple[kcr.Key, ...]:
    return (kcr.Key(config.metadata.namespace, "site"),)

class WebsiteReconciler:
    def __init__(self, manager: kcr.Manager) -> None:
        self._client, self._websites = manager.client, manager.store(Website)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        website = self._websites.get(key)
        return kcr.Result() if website is None or website.spec.replicas else kcr.Result(requeue_after=None)

def setup(manager: kcr.Manager) -> None:
    manager.add_controller(
        "website", WebsiteReconciler(manager),
        watches=[kcr.watch(Website), kcr.owned(Deployment, by=Website), kcr.watch(ConfigMap, map_to=websites_of)],
        workers=10,
    )

if __name__ == "__main__":
    kcr.run(setup)
"""

WRONG = """
site = Website(spec=WebsiteSpec(image="nginx"))
site.spec.replicas = 3
site.metadata.labels["a"] = "b"
WebsiteSpec()
"""


@pytest.mark.timeout(60)
def test_example_is_accepted_and_its_misuse_refused(tmp_path: Path) -> None:
    right, wrong = tmp_path / "website.py", tmp_path / "misuse.py"
    right.write_text(WEBSITE)
    wrong.write_text(WEBSITE + WRONG)
    out, err, _ = api.run(["--strict", "--config-file", "", "--cache-dir", str(tmp_path), str(right), str(wrong)])
    assert not err
    assert f"{right}" not in out
    assert 'Property "replicas" defined in "WebsiteSpec" is read-only' in out
    assert 'Unsupported target for indexed assignment ("Mapping[str, str]")' in out
    assert 'Missing named argument "image" for "WebsiteSpec"' in out
    assert "Found 3 errors in 1 file" in out
