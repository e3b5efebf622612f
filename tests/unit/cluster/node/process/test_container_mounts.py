"""Where containers find their volumes: by mounts, or by other paths."""

from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.process.container_mounts import (
    Mount,
    kept_visible,
    mount_variables,
    rewrite_paths,
    rewritten,
)

MOUNTS = (
    Mount("data", "/n/data", "/data", read_only=False),
    Mount("my-config", "/n/config/key", "/data/config", read_only=True),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("/data", "/n/data", id="whole"),
        pytest.param("/data/file", "/n/data/file", id="prefix"),
        pytest.param("cat /data/a > /data/b; ls '/data'", "cat /n/data/a > /n/data/b; ls '/n/data'", id="script"),
        pytest.param("--in=/data/a:/data", "--in=/n/data/a:/n/data", id="option"),
        pytest.param("/data/config/x", "/n/config/key/x", id="longest-first"),
        pytest.param("/database /data-2 /data.txt", "/database /data-2 /data.txt", id="longer-name"),
        pytest.param("/mnt/data x/data", "/mnt/data x/data", id="inside-a-path"),
    ],
)
def test_mount_paths_are_replaced_as_whole_segments(text: str, expected: str) -> None:
    assert rewrite_paths([text], MOUNTS) == (expected,)


def test_variables_name_the_directories_of_volumes() -> None:
    assert mount_variables(MOUNTS) == {"KCR_MOUNT_DATA": "/n/data", "KCR_MOUNT_MY_CONFIG": "/n/config/key"}


def test_arguments_and_values_are_rewritten_alike() -> None:
    argv, values = rewritten(("cat", "/data/a"), {"FILE": "/data/b", "KCR_MOUNT_DATA": "own"}, MOUNTS)
    assert argv == ("cat", "/n/data/a")
    assert values == {"FILE": "/n/data/b", "KCR_MOUNT_DATA": "own", "KCR_MOUNT_MY_CONFIG": "/n/config/key"}


def test_what_a_mount_would_hide_is_mounted_again(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "gone"
    home.mkdir()
    over = Mount("v", "/n", str(tmp_path), read_only=False)
    assert kept_visible([over], [home, other]) == (Mount("", str(home), str(home), read_only=False),)
    assert kept_visible([Mount("v", "/n", "/elsewhere", read_only=False)], [home]) == ()
