import pytest

from kcr.api.meta import ObjectMeta
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod, KubeletPodSpec
from kcr_devcluster.cluster.node.process.environment import (
    argv_of,
    expand,
    field_of,
    hostname_of,
    image_name,
    is_idle_shell,
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


def test_override_takes_the_place_of_the_hostname() -> None:
    spec = KubeletPodSpec(hostname="a", subdomain="b", hostname_override="db.example")
    assert hostname_of(KubeletPod(metadata=ObjectMeta(name="p"), spec=spec)) == "db.example"


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        pytest.param(KubeletContainer(image="perl"), ("perl", "-de0"), id="image-alone"),
        pytest.param(KubeletContainer(image="perl", args=("-v",)), ("-v",), id="args-replace-the-command-of-the-image"),
        pytest.param(KubeletContainer(image="perl", command=("go",)), ("go",), id="command-drops-that-of-the-image"),
        pytest.param(
            KubeletContainer(image="perl", command=("go",), args=("-x",)), ("go", "-x"), id="command-and-args"
        ),
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
    assert argv_of(container, {"A": "1"}) == argv


@pytest.mark.parametrize(
    ("image", "name"),
    [
        pytest.param("python", "python", id="as-written"),
        pytest.param("python:3.13-slim", "python", id="without-tag"),
        pytest.param("perl@sha256:abc", "perl", id="without-digest"),
        pytest.param("host:5000/library/perl:5.34.0", "perl", id="last-path-element"),
        pytest.param("host:5000/app", "app", id="port-of-a-registry-is-no-tag"),
    ],
)
def test_images_are_known_by_the_last_part_of_their_name(image: str, name: str) -> None:
    assert image_name(image) == name


def test_unknown_variables_stay_as_written() -> None:
    assert expand("$(GONE) $", {}) == "$(GONE) $"


def test_shell_with_nothing_to_do_is_idle() -> None:
    assert is_idle_shell(KubeletContainer(image="docker.io/busybox:1.36"))
    assert not is_idle_shell(KubeletContainer(image="busybox", args=("sleep", "1")))
