"""Owners and what they own, in few words."""

from datetime import UTC, datetime
from typing import Any

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import OwnerReference, Resource
from kcr.testing import build

GONE = datetime(2026, 1, 1, tzinfo=UTC)


class Website(Resource, api_version="example.dev/v1", plural="websites"):
    """A custom kind: the server knows no strategic patches for it."""


def website(name: str = "shop", uid: str = "uid-shop", **metadata: Any) -> Website:
    return Website(metadata=build.metadata(name, uid=uid, **metadata))


def config_map(name: str = "settings", **metadata: Any) -> ConfigMap:
    return build.config_map(name, **{"resource_version": "7", **metadata})


def namespace(name: str = "default") -> Namespace:
    return Namespace(metadata=build.metadata(name, namespace=""))


def reference(name: str = "shop", uid: str = "uid-shop", *, controller: bool | None = True) -> OwnerReference:
    return OwnerReference(
        api_version="example.dev/v1", kind="Website", name=name, uid=uid, controller=controller,
        block_owner_deletion=controller,
    )  # fmt: skip
