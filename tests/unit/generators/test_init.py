"""`kcr init`: names that can be used, and what is written."""

import shutil
import sys
import tomllib
from pathlib import Path

import click
import pytest

from kcr.cli.main import exit_code_of
from kcr_devcluster.apiserver.schema.builtin import builtin_kinds
from kcr_devcluster.generators.init import Names, names_of, plural_of, renamed, write
from kcr_devcluster.generators.requirement import KcrRequirement
from tests.kit.documents import ROOT


@pytest.mark.parametrize(
    ("name", "kind", "group", "expected"),
    [
        pytest.param(
            "website", "Website", "example.dev",
            Names("website", "website", "Website", "website", "websites", "example.dev"), id="as-the-example",
        ),
        pytest.param(
            "coffee-shop", "", "shops.example.org",
            Names("coffee-shop", "coffee_shop", "CoffeeShop", "coffeeshop", "coffeeshops", "shops.example.org"),
            id="kind-of-the-name",
        ),
    ],
)  # fmt: skip
def test_names_follow_from_name_kind_and_group(name: str, kind: str, group: str, expected: Names) -> None:
    assert names_of(name, kind, group) == expected


@pytest.mark.parametrize(
    ("name", "kind", "group", "words"),
    [
        pytest.param("Shop", "Shop", "a.dev", "use lower-case letters", id="capital"),
        pytest.param("1shop", "Shop", "a.dev", "beginning with a letter", id="digit-first"),
        pytest.param("shop-", "Shop", "a.dev", "use lower-case letters", id="dash-last"),
        pytest.param("../shop", "Shop", "a.dev", "use lower-case letters", id="path"),
        pytest.param("class", "Shop", "a.dev", "class is the name of something else", id="keyword"),
        pytest.param("calendar", "Shop", "a.dev", "calendar is the name of something else", id="module-of-python"),
        pytest.param("tests", "Shop", "a.dev", "tests is the name of something else", id="folder-of-the-project"),
        pytest.param("pytest", "Shop", "a.dev", "pytest is the name of something else", id="installed"),
        pytest.param("kcr", "Shop", "a.dev", "kcr is the name of something else", id="kcr"),
        pytest.param("shop", "shop", "a.dev", "write it in CamelCase", id="kind-in-lower-case"),
        pytest.param("shop", "Coffee-Shop", "a.dev", "write it in CamelCase", id="kind-with-a-dash"),
        pytest.param("shop", "Pod", "a.dev", "Kubernetes has such a kind", id="kind-of-kubernetes"),
        pytest.param("shop", "PodSpec", "a.dev", "the example calls something else PodSpec", id="kind-in-use"),
        pytest.param("shop", "Manager", "a.dev", "or manager", id="variable-in-use"),
        pytest.param("shop", "Lambda", "a.dev", "or lambda", id="kind-is-a-keyword"),
        pytest.param("switch", "On", "a.dev", "readers of YAML take 'On' for no text", id="kind-is-a-boolean-of-yaml"),
        pytest.param("y", "", "a.dev", "readers of YAML take 'Y' for no text", id="name-is-a-boolean-of-yaml"),
        pytest.param(
            "voice", "Ye", "a.dev", "readers of YAML take 'yes' for no text", id="plural-is-a-boolean-of-yaml"
        ),
        pytest.param("shop", "Shop", "example", "use a domain of your own", id="group-without-a-dot"),
        pytest.param("shop", "Shop", "shop.k8s.io", "use a domain of your own", id="group-of-kubernetes"),
    ],
)
def test_name_that_cannot_be_used_is_refused(name: str, kind: str, group: str, words: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        names_of(name, kind, group)
    assert words in refused.value.message


@pytest.mark.parametrize("kind", sorted({kind for _, kind in builtin_kinds()}))
def test_every_kind_of_kubernetes_is_refused(kind: str) -> None:
    with pytest.raises(click.UsageError, match="Kubernetes has such a kind"):
        names_of("shop", kind, "a.dev")


def test_plural_follows_the_end_of_the_word() -> None:
    assert [plural_of(word) for word in ("website", "bus", "box", "bakery", "array")] == [
        "websites", "buses", "boxes", "bakeries", "arrays",
    ]  # fmt: skip


def test_every_name_of_the_example_becomes_another() -> None:
    names = names_of("shop", "Bakery", "a.dev")
    text = "from examples.website.api import WebsiteSpec  # Websites, websites.example.dev, a website"
    assert renamed(text, names) == "from shop.api import BakerySpec  # Bakery objects, bakeries.a.dev, a bakery"


def test_folder_that_is_there_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    assert exit_code_of(["init", "shop"]) == 1
    assert capsys.readouterr().err == (
        "kcr: shop exists: choose another name; --update renews the generated files of a project\n"
    )
    assert list((tmp_path / "shop").iterdir()) == []


def test_nine_files_are_written_and_named_as_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(["init", "coffee-shop", "--kind", "CoffeeShop", "--group", "a.dev"]) == 0
    out, err = capsys.readouterr()
    there = {str(path.relative_to(tmp_path)) for path in (tmp_path / "coffee-shop").rglob("*") if path.is_file()}
    assert set(out.split()) == {name for name in there if "__pycache__" not in name}
    assert len(out.split()) == 9
    assert "operator's project of nine files," in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "kcr dev --controllers coffee_shop.controller:setup -f manifests" in err
    left = [name for name in out.split() if "ebsite" in (tmp_path / name).read_text(encoding="utf-8")]
    assert left == []
    assert "](" not in (tmp_path / "coffee-shop" / "README.md").read_text(encoding="utf-8"), "a link to nothing"


HERE = KcrRequirement(">=0.1.0", "file:///src/kcr")
INDEX = KcrRequirement(">=0.1.0")


@pytest.mark.parametrize(
    ("kcr", "webhook", "own", "test"),
    [
        pytest.param(INDEX, False, ["kcr>=0.1.0"], ["kcr[test]>=0.1.0"], id="index"),
        pytest.param(INDEX, True, ["kcr[secure]>=0.1.0"], ["kcr[test]>=0.1.0"], id="index-and-webhooks"),
        pytest.param(
            HERE, False, ["kcr @ file:///src/kcr"],
            ["kcr[test] @ file:///src/kcr", "kcr-devcluster @ file:///src/kcr"], id="folder",
        ),
        pytest.param(
            # pip 23.2 finds the requirement of kcr-devcluster only in the first.
            HERE, True, ["kcr @ file:///src/kcr", "kcr[secure] @ file:///src/kcr"],
            ["kcr[test] @ file:///src/kcr", "kcr-devcluster @ file:///src/kcr"], id="folder-and-webhooks",
        ),
    ],
)  # fmt: skip
def test_kcr_is_required_as_it_was_installed(
    tmp_path: Path, kcr: KcrRequirement, webhook: bool, own: list[str], test: list[str]
) -> None:
    write(tmp_path / "shop", names_of("shop", "", "a.dev"), kcr, kcr, webhook=webhook)
    project = tomllib.loads((tmp_path / "shop" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["dependencies"], project["optional-dependencies"]["test"]) == (own, test)


def test_webhooks_are_added_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    written = []
    for options in ([], ["--webhook"]):
        assert exit_code_of(["init", "coffee-shop", "--group", "a.dev", *options]) == 0
        out, err = capsys.readouterr()
        named = "api.py, controller.py and webhook.py" if options else "api.py and controller.py"
        assert f"then edit {named} in coffee_shop/; README.md" in err
        written.append({name: (tmp_path / name).read_text(encoding="utf-8") for name in out.split()})
        assert "coffee_shop" not in sys.modules, "the new package is imported, and forgotten again"
        shutil.rmtree(tmp_path / "coffee-shop")
    plain, webhooks = written
    added = {name.removeprefix("coffee-shop/") for name in webhooks.keys() - plain.keys()}
    assert added == {
        "coffee_shop/v1beta1.py", "coffee_shop/webhook.py", "tests/test_webhook.py", "chart/Chart.yaml",
        "chart/values.yaml", "chart/templates/deployment.yaml", "chart/templates/rbac.yaml",
        "chart/templates/webhooks.yaml", "chart/templates/crds.yaml", "chart/templates/sharding.yaml",
        "chart/files/a.dev_coffeeshops.yaml",
    }  # fmt: skip
    assert {name.removeprefix("coffee-shop/") for name in plain if plain[name] != webhooks[name]} == {
        "README.md", "pyproject.toml", "manifests/a.dev_coffeeshops.yaml",
    }  # fmt: skip
    assert "ebhook" not in plain["coffee-shop/README.md"]
    assert [name for name, text in webhooks.items() if "ebsite" in text] == []
    assert "kcr dev --controllers coffee_shop.webhook:setup -f manifests" in err
    assert 'coffee-shop = "coffee_shop.webhook:setup"' in webhooks["coffee-shop/pyproject.toml"]
    assert "kcr[secure]" in webhooks["coffee-shop/pyproject.toml"]
    assert "name: coffeeshop\n" in webhooks["coffee-shop/manifests/a.dev_coffeeshops.yaml"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A new project with webhooks, the folder to work in."""
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(["init", "shop", "--webhook"]) == 0
    capsys.readouterr()
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def add_field(shop: Path) -> None:
    api = shop / "shop" / "api.py"
    api.write_text(api.read_text().replace("    title: str\n", '    title: str\n    colour: str = "red"\n', 1))


def test_generated_files_follow_the_code(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["init", "--update"]) == 0
    assert capsys.readouterr() == ("", "all is up to date\n")
    add_field(shop)
    (shop / "chart" / "templates" / "rbac.yaml").unlink()
    assert exit_code_of(["init", "--update", str(shop)]) == 0
    out, err = capsys.readouterr()
    assert "+              colour:\n+                type: string\n+                default: red\n" in out
    assert "--- a/manifests/example.dev_shops.yaml\n+++ b/manifests/example.dev_shops.yaml\n" in out
    names = ("manifests/example.dev_shops.yaml", "chart/files/example.dev_shops.yaml", "chart/templates/rbac.yaml")
    assert set(err.splitlines()) == {f"updated {shop / name}" for name in names}
    assert "colour:" in (shop / "manifests" / "example.dev_shops.yaml").read_text()
    assert exit_code_of(["init", "--update"]) == 0
    assert capsys.readouterr().out == ""


def test_code_that_cannot_be_imported_changes_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in shop.rglob("*.yaml")}
    (shop / "shop" / "webhook.py").write_text("import nothing_of_this_name")
    add_field(shop)
    assert exit_code_of(["init", "--update"]) == 1
    assert "nothing_of_this_name" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in shop.rglob("*.yaml")} == before


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(
            ["--update"], 1, "has no pyproject.toml with a package that has an api.py: go to the folder", id="folder"
        ),
        pytest.param(["--update", "--webhook"], 2, "--update: the project has its kind", id="options"),
        pytest.param([], 2, "Missing argument 'NAME'", id="no-name"),
    ],
)
def test_what_cannot_be_updated_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], code: int, words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert exit_code_of(["init", *arguments]) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
