"""The private kubeconfig of `kcr dev`."""

from pathlib import Path

import pytest

from kcr.errors import ConfigError
from kcr_devcluster.dev.private_file import MARK, candidates, default_path, private_file


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "dev.kubeconfig"
    with private_file(iter([path]), "kind: Config\n"):
        assert path.read_text(encoding="utf-8").endswith("kind: Config\n")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert not path.exists()


def test_new_file_appears_with_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, there = tmp_path / "config", []
    # When the content reaches the disk, a client that waits for the file sees none yet.
    monkeypatch.setattr("os.fsync", lambda _: there.append(path.exists()))
    with private_file(iter([path]), "new\n"):
        assert path.read_text() == MARK + "new\n"
    assert there == [False]


def test_file_that_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "dev.kubeconfig"
    path.write_text(f"{MARK}old", encoding="utf-8")
    with private_file(iter([path]), "new") as written:
        assert written.path == path
        assert path.read_text(encoding="utf-8").endswith("new")
    assert not path.exists()


def test_file_in_use_is_left_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "dev.kubeconfig"
    with private_file(candidates(path), "first"), private_file(candidates(path), "second") as second:
        assert second.path == tmp_path / "dev-2.kubeconfig"
        assert path.read_text(encoding="utf-8").endswith("first")
        with pytest.raises(ConfigError, match="belongs to another kcr dev"), private_file(iter([path]), "third"):
            pass
    assert not list(tmp_path.iterdir())


def test_file_of_a_cluster_that_comes_again_stays(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    for text in ("first", "second"):
        with private_file(iter([path]), text, keep=True):
            pass
        assert path.read_text(encoding="utf-8") == MARK + text
    assert path.stat().st_mode & 0o777 == 0o600


def test_file_that_the_user_put_there_since_stays(tmp_path: Path) -> None:
    path = tmp_path / "dev.kubeconfig"
    with private_file(iter([path]), "old"):
        (tmp_path / "mine").write_text("mine", encoding="utf-8")
        (tmp_path / "mine").replace(path)
    assert path.read_text(encoding="utf-8") == "mine"


def test_kubeconfig_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="not of kcr dev"), private_file(iter([path]), "new"):
        pass
    assert path.read_text(encoding="utf-8").startswith("apiVersion")


def test_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with (
        pytest.raises(ConfigError, match=r"cannot write .*dev\.kubeconfig"),
        private_file(iter([blocked / "dev.kubeconfig"]), ""),
    ):
        pass


def test_runtime_directory_of_the_session_is_preferred(tmp_path: Path) -> None:
    assert default_path({"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "kcr" / "dev.kubeconfig"
    assert default_path({}).parts[-2:] == (".kcr", "dev.kubeconfig")


def test_text_may_change_while_the_file_is_held(tmp_path: Path) -> None:
    path = tmp_path / "dev.kubeconfig"
    with private_file(iter([path]), "old") as file:
        file.write("new")
        assert path.read_text(encoding="utf-8") == f"{MARK}new"
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(ConfigError, match="belongs to another kcr dev"), private_file(iter([path]), "third"):
            pass
        (tmp_path / "mine").write_text("mine", encoding="utf-8")
        (tmp_path / "mine").replace(path)
        file.write("newer")
    assert path.read_text(encoding="utf-8") == "mine"
