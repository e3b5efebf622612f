"""Output and exit codes of `kcr webhooks generate`; the manifests are `tests/unit/test_webhook_manifests.py`."""

from pathlib import Path

import pytest
import yaml

from kcr.cli.main import exit_code_of

HOOKS = """
import kcr


class Site(kcr.Resource, api_version="example.dev/v1", plural="sites"):
    pass


class SiteV1Beta1(kcr.Resource, kind="Site", api_version="example.dev/v1beta1", plural="sites"):
    pass


class Hook:
    def default(self, obj, request): ...

    def validate_update(self, old, new, request): ...


kcr.converts(Site, SiteV1Beta1)(lambda new: SiteV1Beta1(metadata=new.metadata))
kcr.converts(SiteV1Beta1, Site)(lambda old: Site(metadata=old.metadata))


def setup(manager):
    manager.add_webhook(Site, Hook(), timeout_seconds=5)


def conversion(manager):
    manager.add_conversion(Site)


def nothing(manager):
    manager.store(Site)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hooks.py").write_text(HOOKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_file_has_service_and_configurations_of_all_setups(folder: Path) -> None:
    arguments = ["hooks:setup", "hooks:conversion", "--service", "web/site", "--port", "8443", "-o", "webhooks.yaml"]
    assert exit_code_of(["webhooks", "generate", *arguments, "--selector", "app=site,tier=web"]) == 0
    service, mutating, validating = yaml.safe_load_all((folder / "webhooks.yaml").read_text())
    assert (service["metadata"], service["spec"]["selector"]) == (
        {"name": "site", "namespace": "web"}, {"app": "site", "tier": "web"},
    )  # fmt: skip
    assert service["spec"]["ports"][0]["targetPort"] == 8443
    assert mutating["metadata"] == {"name": "site", "annotations": {"kcr.dev/inject-ca-from": "web/site"}}
    assert mutating["webhooks"][0]["timeoutSeconds"] == 5
    assert validating["webhooks"][0]["rules"][0]["operations"] == ["UPDATE"]


def test_conversion_alone_needs_the_service_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["webhooks", "generate", "hooks:conversion"]) == 0
    (service,) = yaml.safe_load_all(capsys.readouterr().out)
    assert service["kind"] == "Service"
    assert service["spec"]["selector"] == {"app.kubernetes.io/name": "kcr-webhooks"}


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param([], 2, "Missing argument", id="no-setup"),
        pytest.param(
            ["hooks:nothing"], 1, "hooks:nothing: no webhook: add some with manager.add_webhook(…)", id="none"
        ),
        pytest.param(["hooks:setup", "--service", "site"], 2, "'site' names no namespace: write NAMES", id="namespace"),
        pytest.param(["hooks:setup", "--service", "a/b/c"], 2, "'a/b/c' is not a key", id="key"),
        pytest.param(["hooks:setup", "--selector", "app"], 2, "'app': write NAME=VALUE,NAME=VALUE", id="selector"),
        pytest.param(["hooks:setup", "-o", "no/file"], 1, "cannot write no/file", id="unwritable"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["webhooks", "generate", *arguments]) == code
    assert line in capsys.readouterr().err
