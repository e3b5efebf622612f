"""Build a release from the commit that is checked out, and all its papers: `make release VERSION=X.Y.Z`.

`dist/X.Y.Z` has the sdist and the wheel of both distributions, the chart, the manifest, a bill of materials of each
wheel and of the image, the licences of the dependencies, the notes and the checksums. Everything is built twice, and a
difference ends the release. Nothing is sent anywhere: signing and publishing are other targets.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.audit import closure
from tools.public_api import RELEASED
from tools.release.build import build_all, checksums, export, pack_chart
from tools.release.sbom import bill_of_lock, bill_of_wheel, licences
from tools.release.version import ROOT, found_versions, section


def findings(root: Path, version: str) -> Iterator[str]:
    """Yield why a checkout is no release of a version, each with the remedy."""
    remedy = f"run `make version VERSION={version}`, and commit"
    for name, versions in found_versions(root).items():
        if versions != {version}:
            yield f"{name} has the version {', '.join(sorted(versions))}: {remedy}"
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not section(changelog, version):
        yield f"CHANGELOG.md has no section of {version}: {remedy}"
    if section(changelog, "Unreleased"):
        yield f"CHANGELOG.md has changes under Unreleased: {remedy}"
    if f"kcr {version}. " not in (root / RELEASED.relative_to(ROOT)).read_text(encoding="utf-8").partition("\n")[0]:
        yield f"docs/reference/{RELEASED.name} is of another version: {remedy}"
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    if changed.returncode or changed.stdout:
        yield "there are changes that are not committed: commit or stash them, for the release is built from the commit"


def make(root: Path, version: str, target: Path) -> None:
    """Build the files of a release, twice, and write its papers.

    Args:
        root: A checkout, whose commit is built.
        version: The version of the commit.
        target: The folder for the files; what is there is replaced.

    Raises:
        RuntimeError: A build failed, or the two differ.
    """
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        epoch = _build(root, version, Path(one))
        _build(root, version, Path(other) / "in" / "another" / "place")
        first, second = (checksums(folder / "made") for folder in (Path(one), Path(other) / "in" / "another" / "place"))
        if first != second:
            raise RuntimeError(f"two builds differ:\n{first}\n{second}")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(Path(one) / "made", target)
    for wheel in sorted(target.glob("*.whl")):
        name = "-".join(wheel.name.split("-")[:2])
        (target / f"{name}.cdx.json").write_bytes(bill_of_wheel(wheel, epoch))
    image = bill_of_lock((root / "requirements.lock").read_text(), "kcr-image", version, epoch)
    (target / f"kcr-image-{version}.cdx.json").write_bytes(image)
    packages = {
        name: found for name, found in closure("kcr", ("speed", "secure", "embedded")).items() if "kcr" not in name
    }
    (target / "licences.txt").write_text(licences(packages), encoding="utf-8")
    notes = section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    (target / "notes.md").write_text(notes + "\n", encoding="utf-8")
    (target / "SHA256SUMS").write_text(checksums(target), encoding="utf-8")


def _build(root: Path, version: str, folder: Path) -> int:
    tree, made = folder / "tree", folder / "made"
    made.mkdir(parents=True)
    epoch = export(root, "HEAD", tree)
    (made / f"kcr-chart-{version}.tgz").write_bytes(pack_chart(tree / "charts" / "kcr", epoch))
    shutil.copyfile(tree / "charts" / "install.yaml", made / "install.yaml")
    build_all(tree, made, epoch)
    return epoch


def main() -> int:
    """Make a release of the commit that is checked out, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="such as 0.2.0")
    version = parser.parse_args().version
    found = list(findings(ROOT, version))
    if not found:
        target = ROOT / "dist" / version
        try:
            make(ROOT, version, target)
        except RuntimeError as error:
            found.append(str(error))
        else:
            sys.stdout.write((target / "SHA256SUMS").read_text())
    for line in found:
        print(f"release: {line}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
