"""What files ConfigMaps, Secrets and fields of the pod become."""

import msgspec
import pytest

from kcr.api.full.core_v1 import ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.volumes.atomic_writer import Payload
from kcr_devcluster.cluster.node.volumes.contents import VolumeError, config_map_files, downward_files, secret_files

CONFIG = ConfigMap(data={"a": "1", "b": "ü"}, binary_data={"c": b"\xff"})


def pod(**metadata: object) -> KubeletPod:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi", "cpu": "250m"}}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    given = {"metadata": {"name": "p", "namespace": "n", "uid": "u", **metadata}, "spec": spec}
    return msgspec.convert(given, KubeletPod)


def texts(payload: Payload) -> dict[str, str]:
    return {path: file.data.decode(errors="replace") for path, file in payload.items()}


def test_every_key_is_a_file() -> None:
    payload = config_map_files(CONFIG, (), None, optional=None)
    assert {path: file.data for path, file in payload.items()} == {"a": b"1", "b": "ü".encode(), "c": b"\xff"}
    assert {file.mode for file in payload.values()} == {0o644}


def test_items_choose_keys_paths_and_modes() -> None:
    items = (KeyToPath(key="a", path="x/a", mode=0o400), KeyToPath(key="c", path="c"))
    payload = config_map_files(CONFIG, items, 0o600, optional=None)
    assert {path: file.mode for path, file in payload.items()} == {"x/a": 0o400, "c": 0o600}


def test_missing_key_is_named() -> None:
    # Source: kubernetes/pkg/volume/configmap/configmap.go and secret/secret.go, MakePayload.
    items = (KeyToPath(key="gone", path="gone"),)
    with pytest.raises(VolumeError, match=r"^configmap references non-existent config key: gone$"):
        config_map_files(CONFIG, items, None, optional=None)
    with pytest.raises(VolumeError, match=r"^references non-existent secret key: gone$"):
        secret_files(Secret(data={"a": b"1"}), items, None, optional=False)


def test_missing_key_of_an_optional_object_is_left_out() -> None:
    items = (KeyToPath(key="gone", path="gone"), KeyToPath(key="a", path="a"))
    assert texts(config_map_files(CONFIG, items, None, optional=True)) == {"a": "1"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("metadata.name", "p", id="name"),
        pytest.param("metadata.namespace", "n", id="namespace"),
        pytest.param("metadata.uid", "u", id="uid"),
        pytest.param("metadata.labels", 'a="1"\nb="x y"', id="labels-sorted"),
        pytest.param("metadata.annotations", 'note="a\\n\\"b\\""', id="annotations-quoted"),
        pytest.param("metadata.labels['b']", "x y", id="one-label"),
    ],
)
def test_fields_of_the_pod_are_files(path: str, text: str) -> None:
    item = msgspec.convert({"path": "f", "fieldRef": {"fieldPath": path}}, DownwardAPIVolumeFile)
    labelled = pod(labels={"b": "x y", "a": "1"}, annotations={"note": 'a\n"b"'})
    assert texts(downward_files(labelled, (item,), None, {})) == {"f": text}


def test_resource_of_no_container_is_an_error() -> None:
    given = {"path": "f", "resourceFieldRef": {"containerName": "other", "resource": "limits.cpu"}}
    with pytest.raises(VolumeError, match="container other not found"):
        downward_files(pod(), (msgspec.convert(given, DownwardAPIVolumeFile),), None, {})


def test_resource_is_a_file_in_units_of_its_divisor() -> None:
    reference = {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}
    item = msgspec.convert({"path": "f", "resourceFieldRef": reference}, DownwardAPIVolumeFile)
    assert texts(downward_files(pod(), (item,), None, {})) == {"f": "1500"}
