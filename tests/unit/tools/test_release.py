import gzip
import io
import re
import shutil
import subprocess
import tarfile
from datetime import date
from pathlib import Path

import msgspec
import pytest

from tests.kit.documents import ROOT
from tools.audit import LOCK
from tools.release.__main__ import findings
from tools.release.build import checksums, pack, pack_chart, unpack
from tools.release.sbom import bill_of_lock, bill_of_wheel
from tools.release.version import PLACES, found_versions, section, set_version

NOTES = """# Changelog

## Unreleased

- New.

## 0.1.0 - 2026-11-22

- Old.

  - More.
"""
TODAY = date(2027, 1, 2)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of the repository that have its version."""
    for name in [*PLACES, "CHANGELOG.md", "docs/reference/public-api.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(NOTES)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    known = ("-c", "user.name=a", "-c", "user.email=b")
    subprocess.run(["git", *known, *words], cwd=folder, capture_output=True, check=True)


def test_repository_has_one_version() -> None:
    assert len({frozenset(found) for found in found_versions(ROOT).values()}) == 1


def test_version_is_set_in_all_places_and_begins_its_notes(checkout: Path) -> None:
    set_version(checkout, "7.8.9", TODAY)
    assert all(found == {"7.8.9"} for found in found_versions(checkout).values())
    changelog = (checkout / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 7.8.9 - 2027-01-02\n\n- New.\n" in changelog
    assert section(changelog, "7.8.9") == "- New."
    assert section(changelog, "0.1.0") == "- Old.\n\n  - More."
    # Everything else is as it was.
    for name in PLACES:
        assert (checkout / name).read_text().replace("7.8.9", "0") == re.sub(
            "|".join(map(re.escape, found_versions(ROOT)[name])), "0", (ROOT / name).read_text()
        )


def test_version_without_notes_is_refused(checkout: Path) -> None:
    with pytest.raises(ValueError, match="write it as"):
        set_version(checkout, "7.8", TODAY)
    with pytest.raises(ValueError, match="choose the next version"):
        set_version(checkout, "0.1.0", TODAY)
    (checkout / "CHANGELOG.md").write_text(NOTES.replace("- New.\n", ""))
    with pytest.raises(ValueError, match="nothing under Unreleased"):
        set_version(checkout, "7.8.9", TODAY)
    assert "7.8.9" not in (checkout / "pyproject.toml").read_text()


def test_each_hindrance_of_a_release_has_a_remedy(checkout: Path) -> None:
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    lines = list(findings(checkout, "7.8.9"))
    assert len(lines) == len(PLACES) + 4
    assert all("run `make version VERSION=7.8.9`, and commit" in line or "commit or stash" in line for line in lines)
    set_version(checkout, "7.8.9", TODAY)
    (checkout / "docs/reference/public-api.txt").write_text("# Public API of kcr 7.8.9. Made by …\n")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "release")
    assert list(findings(checkout, "7.8.9")) == []


def test_archive_depends_on_names_contents_and_time_alone(tmp_path: Path) -> None:
    files = [("a/b", b"1", False), ("a/a", b"2", True)]
    packed = pack(files, 1000)
    assert packed == pack(files[::-1], 1000)
    assert packed != pack(files, 1001)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        found = [(one.name, one.mode, one.mtime, one.uid, one.uname) for one in archive]
    assert found == [("a/a", 0o755, 1000, 0, ""), ("a/b", 0o644, 1000, 0, "")]
    unpack(gzip.decompress(packed), tmp_path)
    (tmp_path / "a" / "a").chmod(0o700)
    assert checksums(tmp_path / "a").splitlines()[1].endswith("  b")


def test_chart_is_packed_as_helm_packs_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(pack_chart(ROOT / "charts" / "kcr", 0))) as archive:
        names = archive.getnames()
    assert {"kcr/Chart.yaml", "kcr/values.yaml", "kcr/templates/monitoring/service.yaml"} < set(names)
    assert not [name for name in names if name.endswith(".helmignore")]


def test_bill_names_what_a_wheel_needs(tmp_path: Path) -> None:
    wheel = tmp_path / "kcr-7.8.9-py3-none-any.whl"
    wheel.write_bytes(b"x")
    bill = msgspec.json.decode(bill_of_wheel(wheel, 0))
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    assert subject["purl"] == "pkg:pypi/kcr@7.8.9"
    parts = {part["name"]: part for part in bill["components"]}
    assert {"aiohttp", "multidict", "msgspec"} < parts.keys()
    assert not {"kcr", "pytest", "uvloop", "kcr-devcluster"} & parts.keys(), "no extra is part of it"
    assert all(part["licenses"][0]["expression"] for part in parts.values())
    graph = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert parts["aiohttp"]["bom-ref"] in graph[subject["bom-ref"]]
    assert parts["multidict"]["bom-ref"] in graph[parts["aiohttp"]["bom-ref"]]
    assert bill_of_wheel(wheel, 0) == bill_of_wheel(wheel, 0)
    assert bill["serialNumber"] != msgspec.json.decode(bill_of_wheel(wheel, 1))["serialNumber"]


def test_bill_of_the_image_has_each_pinned_package_with_its_hashes() -> None:
    lock = LOCK.read_text()
    bill = msgspec.json.decode(bill_of_lock(lock, "kcr-image", "7.8.9", 0))
    assert len(bill["components"]) == len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE))
    assert sum(len(part["hashes"]) for part in bill["components"]) == lock.count("--hash=sha256:")
