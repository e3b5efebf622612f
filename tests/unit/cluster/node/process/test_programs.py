"""Which programs are missing in a container with mounts, as seen from outside."""

from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.process.programs import StartError, check_program_inside

ENVIRONMENT = {"PATH": "/kcr-bin:/usr/bin:/bin"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a container, with a program in a volume."""
    (tmp_path / "kcr-bin").mkdir()
    (tmp_path / "kcr-bin" / "tool").symlink_to("..data/tool")
    return tmp_path


@pytest.mark.parametrize(
    ("program", "directory"),
    [
        pytest.param("tool", "/", id="in-a-volume"),
        pytest.param("/kcr-bin/tool", "/", id="path"),
        pytest.param("./tool", "/kcr-bin", id="relative"),
        pytest.param("sh", "/", id="of-the-machine"),
    ],
)
def test_program_of_container_or_machine_is_there(root: Path, program: str, directory: str) -> None:
    check_program_inside(program, ENVIRONMENT, Path(directory), str(root))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("no-such", 'exec: "no-such": executable file not found in $PATH', id="name"),
        pytest.param("/kcr-bin/no-such", 'exec: "/kcr-bin/no-such": no such file or directory', id="path"),
    ],
)
def test_missing_program_is_named(root: Path, program: str, message: str) -> None:
    with pytest.raises(StartError) as refused:
        check_program_inside(program, ENVIRONMENT, Path("/"), str(root))
    assert str(refused.value) == message


def test_root_that_cannot_be_seen_refuses_nothing(root: Path) -> None:
    check_program_inside("no-such", ENVIRONMENT, Path("/"), str(root / "gone"))
