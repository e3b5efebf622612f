from datetime import UTC
from importlib.metadata import version
from pathlib import Path

import pytest

from kcr.controllers.cronjob.wall_clock import local_zone, zone_sources
from tests.kit.cronjob_harness import at

SUMMER = at("12:00:00")


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        pytest.param("Europe/Rome", 2, id="name"),
        pytest.param(":Europe/Rome", 2, id="with-a-colon"),
        pytest.param("", 0, id="empty"),
        pytest.param("Nowhere/At_All", 0, id="unknown"),
        pytest.param("/no/such/file", 0, id="no-such-file"),
    ],
)
def test_variable_names_the_zone(name: str, hours: int) -> None:
    offset = SUMMER.astimezone(local_zone({"TZ": name})).utcoffset()
    assert offset is not None
    assert offset.total_seconds() == hours * 3600


def test_machine_has_a_zone_where_the_variable_has_none(tmp_path: Path) -> None:
    # The smallest file there is: one zone, an hour east of Greenwich, for all time.
    header = b"TZif2" + bytes(15)
    counts = b"".join(number.to_bytes(4, "big") for number in (0, 0, 0, 0, 1, 4))
    block = header + counts + (3600).to_bytes(4, "big") + b"\x00\x00" + b"XST\x00"
    file = tmp_path / "localtime"
    file.write_bytes(block + block + b"\nXST-1\n")
    assert str(SUMMER.astimezone(local_zone({}, file)).utcoffset()) == "1:00:00"


@pytest.mark.parametrize("content", [None, b"no zone at all"])
def test_machine_without_a_zone_is_in_utc(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "localtime"
    if content is not None:
        file.write_bytes(content)
    assert local_zone({}, file) is UTC


def test_sources_of_zones_are_named_with_their_versions(tmp_path: Path) -> None:
    known, unversioned = tmp_path / "a", tmp_path / "b"
    known.mkdir()
    unversioned.mkdir()
    (known / "tzdata.zi").write_text("# version 2023c\n# This zic input file is in the public domain.\n")
    package = f"the Python package tzdata {version('tzdata')}"
    folders = (str(known), str(tmp_path / "none"), str(unversioned))
    assert zone_sources(folders) == f"{known} (2023c) and {unversioned} and {package}"
    assert zone_sources(()) == package
