import pytest

from kcr.api.kubelet import KubeletContainer, KubeletPod, KubeletPodSpec
from kcr.api.meta import ObjectMeta
from kcr.cluster.node.environment import (
    BUILT_IN,
    ImageCommand,
    argv_of,
    expand,
    field_of,
    find,
    hostname_of,
    is_idle_shell,
    without_tag,
)

POD = KubeletPod(
    metadata=ObjectMeta(
        name="p", namespace="ns", uid="u", labels={"app": "pi"},
        annotations={"batch.kubernetes.io/job-completion-index": "3"},
    ),
    spec=KubeletPodSpec(service_account_name="robot"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['app']", "pi"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['batch.kubernetes.io/job-completion-index']", "3"),
        ("spec.nodeName", "n"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "127.0.0.1"),
        ("spec.unknown", ""),
    ],
)
def test_fields_of_the_pod_become_values(path: str, value: str) -> None:
    assert field_of(POD, path, "n", "127.0.0.1") == value


@pytest.mark.parametrize(
    ("name", "hostname", "expected"),
    [
        pytest.param("p", "", "p", id="name-of-the-pod"),
        pytest.param("p", "job-3", "job-3", id="hostname-of-the-spec"),
        pytest.param("a" * 62 + "-b", "", "a" * 62, id="cut-without-a-trailing-dash"),
    ],
)
def test_hostname_is_at_most_63_characters(name: str, hostname: str, expected: str) -> None:
    assert hostname_of(KubeletPod(metadata=ObjectMeta(name=name), spec=KubeletPodSpec(hostname=hostname))) == expected


IMAGES = {**BUILT_IN, "app": ImageCommand(("run",), ("--fast",)), "python:3.12": ImageCommand((), ("py312",))}


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        pytest.param(KubeletContainer(image="app"), ("run", "--fast"), id="image-alone"),
        pytest.param(
            KubeletContainer(image="app", args=("-x",)), ("run", "-x"), id="args-replace-the-command-of-the-image"
        ),
        pytest.param(KubeletContainer(image="app", command=("go",)), ("go",), id="command-drops-both"),
        pytest.param(KubeletContainer(image="app", command=("go",), args=("-x",)), ("go", "-x"), id="command-and-args"),
        pytest.param(
            KubeletContainer(image="none", args=("echo", "hi")), ("echo", "hi"), id="args-alone-of-unknown-image"
        ),
        pytest.param(KubeletContainer(image="none"), (), id="nothing-says-anything"),
        pytest.param(
            KubeletContainer(command=("sh", "-c", "echo $(A) $$(A) $(B)")),
            ("sh", "-c", "echo 1 $(A) $(B)"),
            id="expansion",
        ),
    ],
)
def test_argv_follows_the_image_contract(container: KubeletContainer, argv: tuple[str, ...]) -> None:
    assert argv_of(container, {"A": "1"}, IMAGES) == argv


@pytest.mark.parametrize(
    ("image", "command"),
    [
        pytest.param("python:3.12", "py312", id="as-written"),
        pytest.param("python:3.13-slim", "python3", id="without-tag"),
        pytest.param("perl@sha256:abc", "perl", id="without-digest"),
        pytest.param("host:5000/library/perl:5.34.0", "perl", id="last-path-element"),
    ],
)
def test_images_are_found_from_exact_to_rough(image: str, command: str) -> None:
    assert find(image, IMAGES).command[0] == command


def test_port_of_a_registry_is_no_tag() -> None:
    assert without_tag("host:5000/app") == "host:5000/app"


def test_unknown_variables_stay_as_written() -> None:
    assert expand("$(GONE) $", {}) == "$(GONE) $"


def test_shell_with_nothing_to_do_is_idle() -> None:
    assert is_idle_shell(KubeletContainer(image="docker.io/busybox:1.36"))
    assert not is_idle_shell(KubeletContainer(image="busybox", args=("sleep", "1")))
