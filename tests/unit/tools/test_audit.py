import json
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from tools.audit import EXTRAS, LOCK, closure, is_allowed, licence, licence_findings, locked, vulnerability_findings


def package(folder: Path, name: str, *metadata: str) -> Distribution:
    """An installed package with these lines of metadata."""
    path = folder / f"{name}-1.0.dist-info"
    path.mkdir()
    (path / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 1.0", *metadata, ""]))
    return Distribution.at(path)


def test_licences_of_all_dependencies_are_allowed() -> None:
    packages = closure("kcr", EXTRAS)
    assert {"kcr", "aiohttp", "yarl", "cryptography", "uvloop"} <= packages.keys()
    assert not {"pytest", "mypy"} & packages.keys()
    assert list(licence_findings(packages)) == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True), ("Apache-2.0 AND MIT", True), ("GPL-3.0-only OR MIT", True), ("GPL-3.0-only AND MIT", False),
        ("(GPL-3.0-only OR MIT) AND BSD-3-Clause", True), ("GPL-3.0-only", False), ("", False),
    ],
)  # fmt: skip
def test_expression_is_allowed_when_it_can_be_satisfied(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed


@pytest.mark.parametrize(
    ("expression", "name", "classifiers", "stated"),
    [
        ("MIT", "other", (), "MIT"),
        ("", "Apache 2.0", ("License :: OSI Approved :: MIT License",), "Apache-2.0"),
        ("", "", ("Typing :: Typed", "License :: OSI Approved :: MIT License"), "MIT"),
        ("", "Copyright\nAll rights", ("License :: OSI Approved :: BSD License",), "BSD-3-Clause"),
        ("", "Ours", (), "Ours"),
        ("", "", (), ""),
    ],
)
def test_licence_is_read_where_it_is_stated(
    expression: str, name: str, classifiers: tuple[str, ...], stated: str
) -> None:
    assert licence(expression, name, classifiers) == stated


def test_finding_names_package_and_licence(tmp_path: Path) -> None:
    packages = {
        "fine": package(tmp_path, "fine", "License-Expression: MIT"),
        "strict": package(tmp_path, "strict", "License-Expression: AGPL-3.0-only"),
        "silent": package(tmp_path, "silent"),
    }
    silent, strict = licence_findings(packages)
    assert silent.startswith("silent 1.0: it states no licence: replace it, or")
    assert strict.startswith("strict 1.0: its licence is 'AGPL-3.0-only': replace it, or")


def test_report_has_findings_and_what_was_not_looked_up() -> None:
    report = {
        "dependencies": [
            {"name": "a", "version": "1", "vulns": []},
            {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.1"]}]},
            {"name": "c", "version": "3", "vulns": [{"id": "PYSEC-2", "aliases": [], "fix_versions": []}]},
            {"name": "d", "skip_reason": "not found"},
        ]
    }
    findings, skipped = vulnerability_findings(json.dumps(report).encode())
    assert findings == ["b 2: PYSEC-1, CVE-1: fixed in 2.1: `make lock`", "c 3: PYSEC-2: no fix yet"]
    assert skipped == ["d"]


def test_all_pins_of_the_lock_are_looked_up() -> None:
    pins = locked(LOCK.read_text())
    assert "uvloop" in {pin.partition("==")[0] for pin in pins}
    assert len(pins) == sum(not line.startswith((" ", "#")) for line in LOCK.read_text().splitlines() if line)
