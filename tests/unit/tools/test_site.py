from pathlib import Path

import pytest

from tests.docs.test_links import DOCUMENTS
from tools.site.__main__ import build, faults
from tools.site.staging import ROOT, below, menu, overview, pages, stage
from tools.site.versions import connect, latest_of, versions_in


def test_each_document_is_in_the_table_of_contents_once() -> None:
    listed = [name for names in pages().values() for name in names]
    assert len(listed) == len(set(listed))
    documents = {str(path.relative_to(ROOT)) for path in DOCUMENTS} - {"README.md"}
    assert {name for name in documents if not name.startswith("docs/spec/")} <= set(listed)


def test_menu_has_the_groups_of_the_guide_and_then_the_rest() -> None:
    groups = menu()
    guide = ["Start", "Write", "Test", "Jobs and CronJobs", "Operate", "Development cluster"]
    assert list(groups) == [*guide, "Reference", "Decisions", "Project"]
    assert groups["Start"] == ["docs/tutorial.md", "docs/guide/README.md", "docs/guide/concepts.md"]
    assert groups["Test"] == ["docs/guide/testing.md", "docs/guide/prove.md"]
    # A folder is one line of the menu, whatever is in it.
    assert "docs/runbooks/KcrIsDown.md" in below("docs/runbooks/README.md")
    assert max(map(len, groups.values())) <= 12


def test_links_to_documents_that_are_left_out_are_texts(tmp_path: Path) -> None:
    stage(tmp_path)
    assert not (tmp_path / "docs" / "spec").exists()
    assert "[rules](docs/spec/README.md)" in (ROOT / "README.md").read_text()
    assert "(docs/spec" not in (tmp_path / "index.md").read_text()


def test_first_page_is_the_readme_with_all_others_below(tmp_path: Path) -> None:
    stage(tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert text.startswith((ROOT / "README.md").read_text().partition("\n")[0])
    assert text.count("```{toctree}") == len(menu())
    assert not (tmp_path / "README.md").exists()
    assert "(../../index.md)" in (tmp_path / "examples" / "website" / "README.md").read_text()
    # What documents link to is beside them, as in the repository.
    assert (tmp_path / "charts" / "kcr" / "values.yaml").read_bytes() == (ROOT / "charts/kcr/values.yaml").read_bytes()
    assert (tmp_path / "docs" / "pictures" / "page.webp").exists()


def test_overview_names_each_document_with_its_first_sentence() -> None:
    lines = overview().splitlines()
    assert lines[:3] == ["# kcr", "", "> Kubernetes controllers in Python."]
    assert "- [Compatibility](_sources/docs/guide/compatibility.md.txt)" in "\n".join(lines)
    assert any(line.startswith("- [CronJobs](") for line in lines)
    assert sum(line.startswith("- [") for line in lines) == sum(map(len, pages().values()))
    assert not [line for line in lines if line.count("](") > 1], "links of the sentences are left out"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param('<a href="b.html#there">b</a><img src="a.png">', "", id="all-there"),
        pytest.param('<a href="c.html">c</a>', "a.html: c.html leads nowhere", id="page"),
        pytest.param('<a href="b.html#gone">b</a>', "a.html: b.html#gone leads nowhere", id="anchor"),
        pytest.param('<a href="#gone">a</a>', "a.html: #gone leads nowhere", id="own-anchor"),
        pytest.param('<img src="gone.png">', "a.html: gone.png leads nowhere", id="image"),
        pytest.param('<a href="https://example.dev">e</a>', "", id="link-to-another-host"),
        pytest.param(
            '<script src="https://cdn.example/x.js"></script>',
            "a.html: https://cdn.example/x.js is of another host", id="asset-of-another-host",
        ),
        pytest.param(
            '<link href="//fonts.example/x.css">', "a.html: //fonts.example/x.css is of another host", id="style",
        ),
    ],
)  # fmt: skip
def test_fault_of_a_page_is_found(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "a.html").write_text(text)
    (tmp_path / "b.html").write_text('<h1 id="there">B</h1>')
    (tmp_path / "a.png").write_bytes(b"")
    assert faults(tmp_path) == ([fault] if fault else [])


def add_version(site: Path, name: str) -> None:
    (site / name / "guide").mkdir(parents=True)
    for path in ("llms.txt", "index.html", "guide/jobs.html"):
        (site / name / path).write_text("")


def test_versions_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0", "dev", "0.11.0rc1"):
        add_version(tmp_path, name)
    (tmp_path / "docs").mkdir()
    connect(tmp_path)
    assert versions_in(tmp_path) == ["dev", "0.11.0rc1", "0.10.0", "0.9.0"]
    assert latest_of(versions_in(tmp_path)) == "0.10.0"
    assert latest_of(["dev"]) == "dev"


def test_latest_version_follows_a_release(tmp_path: Path) -> None:
    for name in ("0.1.0", "0.2.0"):
        add_version(tmp_path, name)
        connect(tmp_path)
        assert (tmp_path / "latest").resolve() == tmp_path / name
    assert '"0.2.0", ["guide/jobs.html", "index.html"]' in (tmp_path / "versions.js").read_text()
    assert faults(tmp_path) == []


@pytest.mark.parametrize("name", ["latest", "", "..", "a/b"])
def test_folder_of_a_version_has_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuntimeError, match="no name of a version"):
        build(tmp_path, name)
