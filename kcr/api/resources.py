"""Where a kind lives on the server: group, version, plural, scope; and the paths these make."""

import re
from typing import NamedTuple
from urllib.parse import quote

_PLAIN = re.compile(r"[a-z0-9.-]*")
_NAMESPACE = re.compile("[a-z0-9-]+")
_OBJECT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_object_name(text: str) -> bool:
    """Return whether objects of most kinds may have a name.

    Source: apimachinery/pkg/util/validation/validation.go, IsDNS1123Subdomain; that a part is too long the server says.
    """
    return _OBJECT_NAME.fullmatch(text) is not None


def object_name(text: str) -> str:
    """Return a name, or nothing, as it is given.

    Raises:
        ValueError: No object may have this name.
    """
    if text and not is_object_name(text):
        form = "lower-case letters, digits, '-' and '.', with a letter or digit at both ends, at most 253"
        raise ValueError(f"{text!r:.300} is not a name of an object: names have {form}")
    return text


class ResourceType(NamedTuple):
    """A kind as the server serves it.

    Attributes:
        group: The API group, `""` for core.
        version: The version in the group.
        kind: The kind, as in manifests.
        plural: The resource name, as in paths.
        namespaced: Whether objects live in namespaces.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of manifests: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def display(self) -> str:
        """The name the server uses in messages: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of the collection, an object or its subresource.

        Args:
            namespace: Empty means all namespaces, or a kind without namespaces.
            name: Empty means the collection.
            subresource: For example `status`; only with a name.

        Raises:
            ValueError: No namespace may have this name.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace != "":
            # Others are no part of a path: `..` would be another one.
            if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
                raise ValueError(f"{self.display}: {namespace!r} is not a name of a namespace")
            root = f"{root}/namespaces/{namespace}"
        path = f"{root}/{self.plural}"
        if name:
            path = f"{path}/{_quoted(name)}"
        return f"{path}/{subresource}" if subresource else path


def _quoted(text: str) -> str:
    # Nearly all names are plain, and looking is cheaper than quoting.
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")
