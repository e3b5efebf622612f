import pytest

from kcr.cluster.node.images import BUILT_IN, ImageCommand, argv_of, expand, find, is_idle_shell, without_tag
from kcr.cluster.node.pods import Container

IMAGES = {**BUILT_IN, "app": ImageCommand(("run",), ("--fast",)), "python:3.12": ImageCommand((), ("py312",))}


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        pytest.param(Container(image="app"), ("run", "--fast"), id="image-alone"),
        pytest.param(Container(image="app", args=("-x",)), ("run", "-x"), id="args-replace-the-command-of-the-image"),
        pytest.param(Container(image="app", command=("go",)), ("go",), id="command-drops-both"),
        pytest.param(Container(image="app", command=("go",), args=("-x",)), ("go", "-x"), id="command-and-args"),
        pytest.param(Container(image="none", args=("echo", "hi")), ("echo", "hi"), id="args-alone-of-unknown-image"),
        pytest.param(Container(image="none"), (), id="nothing-says-anything"),
        pytest.param(
            Container(command=("sh", "-c", "echo $(A) $$(A) $(B)")), ("sh", "-c", "echo 1 $(A) $(B)"), id="expansion"
        ),
    ],
)
def test_argv_follows_the_image_contract(container: Container, argv: tuple[str, ...]) -> None:
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
    assert is_idle_shell(Container(image="docker.io/busybox:1.36"))
    assert not is_idle_shell(Container(image="busybox", args=("sleep", "1")))
