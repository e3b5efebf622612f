"""Files, output and exit codes of `kcr crd generate`; what is in them is `tests/unit/api/crd`."""

from pathlib import Path

import pytest
import yaml

from kcr.cli.main import exit_code_of
from kcr_devcluster.yaml_json import load_yaml
from tests.kit.command_lines import assert_refused

KINDS = '''
import kcr
from kcr.api.core import ConfigMap


class GadgetSpec(kcr.Object):
    """What is wanted of a gadget: “all”."""

    size: int | str | None = None
    weight: int | str | None = None


class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets", storage=True):
    spec: GadgetSpec = GadgetSpec()


class GadgetV1Beta1(kcr.Resource, kind="Gadget", api_version="example.dev/v1beta1", plural="gadgets"):
    spec: GadgetSpec = GadgetSpec()


class Widget(kcr.Resource, api_version="example.dev/v1", plural="widgets"):
    pass


class Mine(kcr.Resource, kind="ConfigMap", api_version="v1", plural="configmaps"):
    pass
'''
SWITCHES = """
from typing import Literal

import kcr


class SwitchSpec(kcr.Object):
    position: Literal["y", "n", "off"] = "y"
    serial: str = "12e03"
    mode: str = "0o644"
    time: str = "12:30"


class Switch(kcr.Resource, api_version="example.dev/v1", plural="switches"):
    spec: SwitchSpec = SwitchSpec()
"""
FILES = {"example.dev_gadgets.yaml", "example.dev_widgets.yaml"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gadgets.py").write_text(KINDS)
    (tmp_path / "switches.py").write_text(SWITCHES)
    (tmp_path / "broken.py").write_text("import kcr\nraise OSError('no disk')\n")
    (tmp_path / "untyped.py").write_text(
        "from typing import Any\nimport kcr\n"
        "class Bag(kcr.Resource, api_version='example.dev/v1', plural='bags'):\n    spec: Any\n"
    )
    (tmp_path / "nothing.py").write_text("import kcr\nfrom kcr.api.core import ConfigMap\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("module", ["gadgets", "gadgets.py", "./gadgets.py"])
def test_all_kinds_of_a_module_are_written_as_documents(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", module]) == 0
    gadget, widget = yaml.safe_load_all(capsys.readouterr().out)
    assert [one["name"] for one in gadget["spec"]["versions"]] == ["v1", "v1beta1"]
    assert widget["metadata"]["name"] == "widgets.example.dev"


def test_yaml_has_no_aliases_and_keeps_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", "gadgets:Gadget"]) == 0
    text = capsys.readouterr().out
    assert "“all”" in text
    assert not {"&id001", "---"} & set(text.split())
    assert text.count("kind: CustomResourceDefinition") == 1


def test_folder_gets_a_file_for_each_kind(folder: Path) -> None:
    assert exit_code_of(["crd", "generate", "gadgets", "-o", "config/crd"]) == 0
    assert {path.name for path in (folder / "config" / "crd").iterdir()} == FILES
    first = (folder / "config/crd/example.dev_gadgets.yaml").read_bytes()
    assert exit_code_of(["crd", "generate", "gadgets", "gadgets:Gadget", "-o", "config/crd"]) == 0
    assert (folder / "config/crd/example.dev_gadgets.yaml").read_bytes() == first


def test_check_names_the_files_that_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = ["crd", "generate", "gadgets", "-o", "crd", "--check"]
    assert exit_code_of(check) == 1
    assert "kcr: crd/example.dev_gadgets.yaml and crd/example.dev_widgets.yaml are not" in capsys.readouterr().err
    assert not (folder / "crd").exists()
    assert exit_code_of(check[:-1]) == 0
    assert exit_code_of(check) == 0
    (folder / "crd" / "example.dev_widgets.yaml").write_text("# mine\n")
    assert exit_code_of(check) == 1
    assert "kcr: crd/example.dev_widgets.yaml is not what the classes say: run" in capsys.readouterr().err


VERSIONS = """
import kcr


class OldSpec(kcr.Object):
    image: str
    tags: tuple[str, ...] = ()


class NewSpec(kcr.Object, validations=(kcr.Validation("self.hosts.size() > 0 || self.domain != ''"),)):
    image: str
    domain: str = ""
    hosts: tuple[str, ...] = ()


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops", storage=True):
    spec: NewSpec


class ShopV1Beta1(kcr.Resource, kind="Shop", api_version="example.dev/v1beta1", plural="shops"):
    spec: OldSpec
"""


def test_lost_fields_and_rules_on_absent_fields_are_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shops.py").write_text(VERSIONS)
    assert exit_code_of(["crd", "generate", "shops", "-o", "crd"]) == 0
    remedy = "give all versions the same fields, or convert them with @kcr.converts"
    assert capsys.readouterr().err.splitlines() == [
        "Warning: shops.example.dev: spec.tags of v1beta1 is missing in the stored version v1: its values are dropped "
        f"on write: {remedy}",
        "Warning: shops.example.dev: v1beta1 has not spec.domain, spec.hosts of the stored version v1: updates through "
        f"it remove them: {remedy}",
        "Warning: shops.example.dev, v1: the rule `self.hosts.size() > 0 || self.domain != ''` of spec fails where "
        "self.hosts is absent: begin it with `!has(self.hosts) ||`, or give the field a default",
    ]
    assert exit_code_of(["crd", "generate", "shops", "-o", "crd", "--check"]) == 0


CONVERTED = """
@kcr.converts(ShopV1Beta1, Shop)
def to_v1(old):
    return Shop(metadata=old.metadata, spec=NewSpec(image=old.spec.image))


@kcr.converts(Shop, ShopV1Beta1)
def to_v1beta1(new):
    return ShopV1Beta1(metadata=new.metadata, spec=OldSpec(image=new.spec.image))
"""


@pytest.fixture
def modules(folder: Path) -> None:
    """Versions with functions beside them, with functions in another module, and in modules of their own."""
    rule = ", validations=(kcr.Validation(\"self.hosts.size() > 0 || self.domain != ''\"),)"
    versions = VERSIONS.replace(rule, "")
    new, old = versions.split("class ShopV1Beta1")
    texts = {
        "shops": versions + CONVERTED, "kinds": versions, "functions": "from kinds import *\nimport kcr\n" + CONVERTED,
        "v1": new, "v1beta1": f"from v1 import *\nimport kcr\n\nclass ShopV1Beta1{old}{CONVERTED}",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize("named", [["shops"], ["kinds", "functions"], ["functions", "kinds"], ["v1beta1", "v1"]])
def test_converted_versions_have_a_conversion_webhook(named: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", *named, "--service", "web/shop"]) == 0
    out, err = capsys.readouterr()
    manifest = yaml.safe_load(out)
    assert manifest["metadata"]["annotations"] == {"kcr.dev/inject-ca-from": "web/shop"}
    assert manifest["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": {"namespace": "web", "name": "shop", "path": "/convert"}},
            "conversionReviewVersions": ["v1"],
        },
    }
    assert [one["name"] for one in manifest["spec"]["versions"]] == ["v1", "v1beta1"]
    assert err == "", "nothing is lost, so there is nothing to warn of"


@pytest.mark.usefixtures("modules")
def test_cert_manager_may_write_the_ca_bundle(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", "shops", "--cert-manager", "--secret", "shop-tls"]) == 0
    manifest = yaml.safe_load(capsys.readouterr().out)
    assert manifest["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "default/shop-tls"}


@pytest.mark.usefixtures("modules")
def test_converted_version_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", "v1beta1"]) == 1
    assert "ShopV1Beta1 is converted to Shop, which is not named: name the module v1, too" in capsys.readouterr().err


@pytest.mark.usefixtures("modules")
def test_incomplete_conversion_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "kinds.py").write_text((folder / "kinds.py").read_text() + CONVERTED.partition("@kcr.converts(Shop, ")[0])
    assert exit_code_of(["crd", "generate", "kinds"]) == 1
    expected = "kcr: Shop is not converted to ShopV1Beta1: register @kcr.converts(Shop, ShopV1Beta1), or convert both"
    assert expected in capsys.readouterr().err


def test_definition_that_loses_nothing_is_written_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["crd", "generate", "gadgets"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param([], 2, "Missing argument", id="no-module"),
        pytest.param(["gadgets", "--check"], 2, "--check compares files: name their folder", id="check"),
        pytest.param(["absent"], 1, "absent cannot be imported: ModuleNotFoundError", id="absent"),
        pytest.param(["broken"], 1, "imported: OSError: no disk at broken.py:2: correct it there", id="broken"),
        pytest.param(["nothing"], 1, "nothing declares no kind of a group of your own: a kind is", id="no-kind"),
        pytest.param(["gadgets:Gadgte"], 1, "no kind Gadgte of a group of your own, but Gadget, W", id="other-kind"),
        pytest.param(["untyped"], 1, "Bag.spec: it has no type: give it one", id="untyped"),
        pytest.param(["gadgets", "-o", "gadgets.py"], 1, "gadgets.py: File exists: name a folder", id="no-folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(["crd", "generate", *arguments], code, line, capsys)


def test_texts_stay_texts_when_a_server_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Source: cel-and-bodies.md, B21: an enum of y and n was stored as one of booleans, and the defaults refused."""
    assert exit_code_of(["crd", "generate", "switches"]) == 0
    definition = load_yaml(capsys.readouterr().out)
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["position"]["enum"] == ["y", "n", "off"]
    assert spec["default"] == {"position": "y", "serial": "12e03", "mode": "0o644", "time": "12:30"}
