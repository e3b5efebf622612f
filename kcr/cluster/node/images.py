"""From image and command to argv. Nothing is pulled: an image gives at most a default command."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kcr.cluster.node.pods import Container

_REFERENCE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")


class ImageCommand(NamedTuple):
    """What an image runs when the pod does not say."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


BUILT_IN: Mapping[str, ImageCommand] = {
    "alpine": ImageCommand(command=("/bin/sh",)),
    "bash": ImageCommand(command=("bash",)),
    "busybox": ImageCommand(command=("sh",)),
    "debian": ImageCommand(command=("bash",)),
    "perl": ImageCommand(command=("perl", "-de0")),
    "python": ImageCommand(command=("python3",)),
    "ubuntu": ImageCommand(command=("/bin/bash",)),
}
_SHELLS = frozenset({"alpine", "bash", "busybox", "debian", "ubuntu"})


def argv_of(
    container: Container, variables: Mapping[str, str], images: Mapping[str, ImageCommand] = BUILT_IN
) -> tuple[str, ...]:
    """Return what to run: `command`, else the image's entrypoint, and `args`, else the image's command.

    The image's command counts only when the pod gives no command of its own. `$(NAME)` is replaced by the
    variable's value.

    Args:
        container: The container.
        variables: Its environment, for `$(NAME)`.
        images: What images run; see `find`.

    Returns:
        Empty when neither pod nor image says anything.
    """
    image = find(container.image or "", images)
    head = container.command or image.entrypoint
    tail = container.args or (() if container.command else image.command)
    return tuple(expand(word, variables) for word in (*head, *tail))


def no_command(container: Container) -> str:
    """Return why a container for which `argv_of` is empty cannot be started, and what to do."""
    return (
        f'image "{container.image}" has no default command here, for images are not pulled: '
        f"give container {container.name} a command; images with one are {', '.join(BUILT_IN)}"
    )


def find(image: str, images: Mapping[str, ImageCommand] = BUILT_IN) -> ImageCommand:
    """Return an image's command: looked up as written, without tag and digest, by the last path element."""
    plain = without_tag(image)
    for name in (image, plain, plain.rpartition("/")[2]):
        if name in images:
            return images[name]
    return ImageCommand()


def without_tag(image: str) -> str:
    """Return an image's name without tag and digest; a port of its registry stays."""
    name = image.partition("@")[0]
    path, slash, last = name.rpartition("/")
    return path + slash + last.partition(":")[0]


def is_idle_shell(container: Container) -> bool:
    """Return whether the container is a bare shell, which ends at once because nobody types."""
    image = without_tag(container.image or "").rpartition("/")[2]
    return not container.command and not container.args and image in _SHELLS


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by the variable's value; `$$` is a dollar, an unknown name stays as it is.

    Source: kubernetes/third_party/forked/golang/expansion/expand.go.
    """

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return _REFERENCE.sub(value, text) if "$" in text else text
