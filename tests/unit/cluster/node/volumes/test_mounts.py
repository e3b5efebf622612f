"""Mounts of a container: which part of which volume is where."""

from pathlib import Path

import msgspec
import pytest

from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.environment import MissingConfigError
from kcr_devcluster.cluster.node.volumes.mounts import PreparedVolume, mounts_of, token_volume

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def container(*mounts: dict[str, object]) -> KubeletContainer:
    return msgspec.convert({"name": "main", "volumeMounts": mounts}, KubeletContainer)


def planned(folder: Path, mount: dict[str, object], *, read_only: bool = False, **variables: str) -> tuple[str, bool]:
    """The source of the one mount of volume `v`, relative to the volume, and whether it is read-only."""
    volumes = {"v": PreparedVolume(folder, read_only)}
    (mounted,) = mounts_of(container({"name": "v", "mountPath": "/data", **mount}), volumes, variables)
    return str(Path(mounted.source).relative_to(folder)), mounted.read_only


@pytest.mark.parametrize(("of_mount", "of_volume"), [(True, False), (False, True), (True, True)])
def test_either_makes_a_mount_read_only(tmp_path: Path, of_mount: bool, of_volume: bool) -> None:
    assert planned(tmp_path, {"readOnly": of_mount}, read_only=of_volume) == (".", True)


def test_sub_path_is_made_where_it_is_missing(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert planned(tmp_path, {"subPath": "a/b"}) == ("a/b", False)
    assert (tmp_path / "a" / "b").is_dir()


def test_sub_path_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert planned(tmp_path, {"subPath": "f"}) == ("f", False)


def test_sub_path_expression_takes_variables(tmp_path: Path) -> None:
    assert planned(tmp_path, {"subPathExpr": "$(POD)/$$(X)"}, POD="p") == ("p/$(X)", False)


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        pytest.param({"subPathExpr": "$(GONE)"}, 'missing value for "GONE"', id="no-variable"),
        pytest.param(
            {"subPath": "out/x"}, 'failed to prepare subPath for volumeMount "v" of container "main"', id="escape"
        ),
        pytest.param(
            {"subPath": "f/x"},
            'failed to create subPath directory for volumeMount "v" of container "main"',
            id="below-a-file",
        ),
        pytest.param({"name": "w"}, 'cannot find volume "w" to mount into container "main"', id="no-volume"),
    ],
)
def test_what_cannot_be_mounted_says_why(tmp_path: Path, mount: dict[str, object], why: str) -> None:
    # Source: kubernetes/pkg/kubelet/kubelet_pods.go, makeMounts.
    (tmp_path / "out").symlink_to("/usr")
    (tmp_path / "f").touch()
    with pytest.raises(MissingConfigError) as refused:
        planned(tmp_path, mount)
    assert str(refused.value) == why


def test_token_is_found_by_its_place() -> None:
    assert token_volume(container({"name": "t", "mountPath": f"{TOKEN_PATH}/"})) == "t"
    assert token_volume(container({"name": "t", "mountPath": "/elsewhere"})) == ""
