"""The requirement for kcr in a new project, for each place where it can have been installed from."""

import json
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from kcr_devcluster.generators.requirement import requirement_of


def installed(folder: Path, origin: dict[str, Any] | None) -> Distribution:
    """Return a package as its installer left it."""
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: kcr\nVersion: 0.1.0\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin))
    return Distribution.at(folder)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        pytest.param(None, "kcr[test]>=0.1.0", id="index"),
        pytest.param(
            {"url": "https://example.dev/kcr.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "kcr[test] @ git+https://example.dev/kcr.git@abc", id="repository",
        ),
        pytest.param(
            {"url": "https://example.dev/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "kcr"},
            "kcr[test] @ git+https://example.dev/r.git@abc#subdirectory=kcr", id="folder-of-a-repository",
        ),
        pytest.param(
            {"url": "https://example.dev/kcr-0.1.0-py3-none-any.whl", "archive_info": {}},
            "kcr[test] @ https://example.dev/kcr-0.1.0-py3-none-any.whl", id="archive",
        ),
        pytest.param(
            {"url": "file:///usr", "dir_info": {"editable": True}}, "kcr[test] @ file:///usr", id="checkout",
        ),
    ],
)  # fmt: skip
def test_requirement_is_where_kcr_was_installed_from(
    origin: dict[str, Any] | None, expected: str, tmp_path: Path
) -> None:
    assert requirement_of(installed(tmp_path, origin)).named("kcr[test]") == expected


def test_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    requirement = requirement_of(installed(tmp_path, {"url": "file:///gone/with%20it", "dir_info": {}}))
    assert requirement.named("kcr") == "kcr>=0.1.0"
    assert requirement.missing == Path("/gone/with it")
