"""The files of a data folder and its lock."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import kcr
from kcr.errors import ConfigError
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.datadir import CREDENTIALS, DataDir, ListenerCredentials
from tests.kit.full_disk import full_disk

CREDENTIAL = ListenerCredentials("secret-token", "authority", "server", "secret-key", 4711)


def test_what_is_saved_is_there_again_and_private(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "new" / "data")
    assert data.credentials() is None
    data.save_credentials(CREDENTIAL)
    key = data.signing_key
    data.close()
    again = DataDir(tmp_path / "new" / "data")
    assert again.credentials() == CREDENTIAL
    assert again.signing_key == key
    again.close()
    assert {file.stat().st_mode & 0o077 for file in (tmp_path / "new").rglob("*")} == {0}


def test_folder_has_one_process_at_a_time(tmp_path: Path) -> None:
    data = DataDir(tmp_path)
    with pytest.raises(ConfigError, match="is in use by another kcr dev"):
        DataDir(tmp_path)
    data.close()
    DataDir(tmp_path).close()


def test_repr_shows_no_secret() -> None:
    assert "secret" not in repr(CREDENTIAL)


def _read(data: DataDir) -> object:
    return data.credentials()


def _save(data: DataDir) -> object:
    data.save_credentials(CREDENTIAL)
    return None


@pytest.mark.parametrize(
    ("spoil", "call", "reason"),
    [
        pytest.param(lambda file: file.write_text("{"), _read, "json is damaged: remove it", id="text"),
        pytest.param(lambda file: file.write_text("{}"), _read, "json is damaged: remove it", id="no-field"),
        pytest.param(Path.mkdir, _read, "cannot read .*credentials.json: Is a directory", id="unreadable"),
        pytest.param(Path.mkdir, _save, "Is a directory: name a folder that you can write", id="unwritable"),
    ],
)
def test_credentials_that_cannot_be_used_are_refused(
    tmp_path: Path, spoil: Callable[[Path], object], call: Callable[[DataDir], object], reason: str
) -> None:
    data = DataDir(tmp_path)
    spoil(tmp_path / CREDENTIALS)
    with pytest.raises(ConfigError, match=reason):
        call(data)
    data.close()


def test_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: File exists: name a folder that you can write"):
        DataDir(tmp_path / "file")


class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets"):
    """A kind whose definition is large."""


@pytest.mark.parametrize(
    ("room", "words"),
    [
        pytest.param(10_000, r"cannot use .*kcr\.db: disk I/O error: free some space", id="new-folder"),
        pytest.param(60_000, r"^cannot write .*kcr\.db: disk I/O error: free some space", id="first-objects"),
    ],
)
@pytest.mark.asyncio
async def test_full_disk_is_named_before_anything_runs(room: int, words: str, tmp_path: Path) -> None:
    definition = tmp_path / "gadgets.yaml"
    manifest = kcr.crd_manifest(Gadget)
    manifest["metadata"]["annotations"] = {"filler": "x" * 100_000}
    definition.write_text(yaml.safe_dump(manifest))
    with full_disk(room), pytest.raises(ConfigError, match=words):
        EmbeddedCluster(data_dir=tmp_path / "data", kinds=[definition])
    # The folder is free again. A cluster that is made and does not run would leave its journal open.
    async with EmbeddedCluster(data_dir=tmp_path / "data", kinds=[definition], runtime=None, gc=False):
        pass
