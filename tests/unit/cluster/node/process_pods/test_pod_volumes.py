from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.pods import KubeletContainer
from kcr_devcluster.cluster.node.process.container_mounts import Mount, rewritten
from kcr_devcluster.cluster.node.process_pods.pod_volumes import (
    DEFAULT_MESSAGE_PATH,
    ContainerStart,
    termination_message_mount,
)

FILE = Path("/home/.main.termination")


@pytest.mark.parametrize(
    ("path", "mounts", "argv", "variables", "is_mounted"),
    [
        pytest.param(DEFAULT_MESSAGE_PATH, (), ("true",), {}, False, id="default"),
        pytest.param(DEFAULT_MESSAGE_PATH, (), ("sh", "-c", "echo >/dev/termination-log"), {}, True, id="in-command"),
        pytest.param(DEFAULT_MESSAGE_PATH, (), ("true",), {"LOG": DEFAULT_MESSAGE_PATH}, True, id="in-variable"),
        pytest.param(DEFAULT_MESSAGE_PATH, ({"name": "v", "mountPath": "/v"},), ("true",), {}, True, id="with-mounts"),
        pytest.param("/other", (), ("true",), {}, True, id="other-path"),
        pytest.param("relative", (), ("relative",), {}, False, id="relative"),
        pytest.param("", (), ("true",), {}, False, id="none"),
    ],
)
def test_file_of_the_last_words_is_mounted_where_it_is_written(
    path: str, mounts: tuple[dict[str, str], ...], argv: tuple[str, ...], variables: dict[str, str], is_mounted: bool
) -> None:
    container = KubeletContainer(name="main", termination_message_path=path, volume_mounts=mounts)
    found = termination_message_mount(container, ContainerStart(argv, variables, Path("/home")), FILE)
    assert found == (Mount("", str(FILE), path, read_only=False) if is_mounted else None)


def test_path_of_the_last_words_is_replaced_without_namespaces() -> None:
    mount = Mount("", str(FILE), DEFAULT_MESSAGE_PATH, read_only=False)
    argv, variables = rewritten(("sh", "-c", "echo >/dev/termination-log"), {"A": "b"}, (mount,))
    # It is no volume, so no variable names it.
    assert (argv, variables) == (("sh", "-c", f"echo >{FILE}"), {"A": "b"})
