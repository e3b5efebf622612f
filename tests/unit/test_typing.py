"""The example every newcomer copies, as a type checker sees it."""

from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.soak

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
    kcr.run(setup, leader_elect=True, leader_elect_resource_name="website", kube_api_burst=50)
"""

WRONG = """
site = Website(spec=WebsiteSpec(image="nginx"))
site.spec.replicas = 3
site.metadata.labels["a"] = "b"
WebsiteSpec()
kcr.run(setup, kube_api_burst="many")
kcr.run(setup, bursts=1)

class Refuses:
    def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> bool:
        return False

class Warns:
    async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> list[str] | None:
        return None

    def default(self, obj: Website, request: kcr.WebhookRequest) -> Website | None:
        return None

def webhooks(manager: kcr.Manager) -> None:
    manager.add_webhook(Website, Refuses())
    manager.add_webhook(Website, [Warns()], timeout_seconds=5)

def worse(manager: kcr.Manager) -> None:
    manager.add_controller("website", WebsiteReconciler(manager), worker=3)
"""

# As `kcr types generate` writes a condition that is not metav1's to the letter.
GENERATED = """
from datetime import datetime
from typing import Literal
from msgspec.structs import replace
import kcr

class GadgetConditions(kcr.Object):
    last_transition_time: datetime
    reason: str
    status: Literal["True", "False", "Unknown"]
    type: str
    message: str | None = None

class GadgetStatus(kcr.Object):
    conditions: tuple[GadgetConditions, ...] = ()

class Gadget(kcr.FullResource, api_version="example.dev/v1", plural="gadgets"):
    status: GadgetStatus = GadgetStatus()

async def set_ready(client: kcr.Client, gadget: Gadget, now: datetime) -> bool:
    ready = GadgetConditions(type="Ready", status="True", reason="Made", last_transition_time=now)
    conditions = kcr.set_condition(gadget.status.conditions, ready, now)
    conditions = kcr.remove_condition(conditions, "Old")
    await client.patch_status(gadget, replace(gadget, status=replace(gadget.status, conditions=conditions)))
    found = kcr.find_condition(conditions, "Ready")
    return found is not None and found.reason == "Made" and kcr.is_condition_true(conditions, "Ready")
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the programs, and what mypy says of them: it reads all of kcr, so it runs once."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {"gadgets.py": GENERATED, "website.py": WEBSITE, "misuse.py": WEBSITE + WRONG}
    for name, text in programs.items():
        (folder / name).write_text(text)
    files = [str(folder / name) for name in programs]
    out, err, _ = api.run(["--strict", "--config-file", "", "--cache-dir", str(folder), *files])
    assert not err
    return folder, out


@pytest.mark.timeout(60)
def test_helpers_of_conditions_take_generated_classes(checked: tuple[Path, str]) -> None:
    folder, out = checked
    assert str(folder / "gadgets.py") not in out


@pytest.mark.timeout(60)
def test_example_is_accepted_and_its_misuse_refused(checked: tuple[Path, str]) -> None:
    folder, out = checked
    assert str(folder / "website.py") not in out
    assert 'Property "replicas" defined in "WebsiteSpec" is read-only' in out
    assert 'Unsupported target for indexed assignment ("Mapping[str, str]")' in out
    assert 'Missing named argument "image" for "WebsiteSpec"' in out
    assert 'Argument "kube_api_burst" to "run" has incompatible type "str"; expected "int"' in out
    assert 'Unexpected keyword argument "bursts" for "run"' in out
    assert 'Unexpected keyword argument "worker" for "add_controller" of "Manager"' in out
    assert 'Argument 2 to "add_webhook" of "Manager" has incompatible type "Refuses"' in out
    assert "Found 7 errors in 1 file" in out
