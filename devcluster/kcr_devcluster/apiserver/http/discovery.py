"""Discovery: the legacy documents and the aggregated ones.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/discovery.
"""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from kcr_devcluster.apiserver.http.routes import Routes
from kcr_devcluster.apiserver.http.serialization import MEDIA_TYPES, check_route, negotiate, not_acceptable
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_KINDS, SUBRESOURCE_VERBS, Kind
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    encoded,
    json_response,
    method_not_allowed,
    no_such_resource,
    text_response,
)
from kcr_devcluster.versions import KubernetesVersion

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
# kubernetes_asyncio refuses a version that lacks any of these, or those that `version` adds.
_VERSION_INFO = {
    "gitCommit": "", "gitTreeState": "clean", "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none",
    "compiler": "none", "platform": "python",
}  # fmt: skip


def git_version(version: KubernetesVersion) -> str:
    """Return the server's version; by the suffix kcr's own controllers recognise an embedded server."""
    return f"v{version}.0+kcr"


def version_info(version: KubernetesVersion) -> APIResponse:
    """Return the document `/version` of a server of a version."""
    major, minor = version.split(".")
    info = {"major": major, "minor": minor, "gitVersion": git_version(version), **_VERSION_INFO}
    return json_response(msgspec.json.format(encoded(info).strip(), indent=2))


def check_read(method: str, accept: str, known: tuple[str, ...] = MEDIA_TYPES) -> None:
    """Refuse what is no GET of a document, or asks for it in another form.

    Args:
        method: The method.
        accept: The Accept header.
        known: The forms of the document.

    Raises:
        StatusError: 405 or 406.
    """
    if method != "GET":
        raise method_not_allowed()
    check_route(accept, known=known)


# Where upstream stores another version than it prefers.
_STORED_VERSIONS = {
    "CustomResourceDefinition": "v1beta1", "MutatingAdmissionPolicy": "v1beta1",
    "MutatingAdmissionPolicyBinding": "v1beta1",
}  # fmt: skip


class Discovery:
    """Serves `/api`, `/apis` and the paths below them, down to the lists of resources."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    def paths(self) -> list[str]:
        """Return the paths of the documents."""
        groups = {f"/apis/{group}": versions for group, versions in self._routes.groups.items() if group}
        below = [f"{group}/{version}" for group, versions in groups.items() for version in versions]
        return sorted(["/api", "/api/v1", "/apis", *groups, *below])

    def respond(self, method: str, steps: list[str], headers: Mapping[str, str]) -> APIResponse:
        """Return the document that a path names.

        Args:
            method: The method. The documents of groups have a handler that takes any.
            steps: The path's steps, such as `["apis", "batch"]`.
            headers: The request's, in lower case.

        Raises:
            StatusError: 404, the group has no such version; 405 or 406.
        """
        accept = headers.get("accept", "")
        match steps:
            case ["api"]:
                check_read(method, accept)
                return self._root([""], headers, self._api_versions())
            case ["apis"]:
                groups = [group for group in self._routes.groups if group]
                return self._root(groups, headers, self._group_list(groups))
            case ["apis", group] if group and group in self._routes.groups:
                _negotiate(accept)
                return json_response(encoded({"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}))
            case ["api", version]:
                return self._resource_list(method, "", version, accept)
            case ["apis", group, version] if group and self._has_version(group, version):
                return self._resource_list(method, group, version, accept)
        return text_response(404, "404 page not found\n")

    def _has_version(self, group: str, version: str) -> bool:
        """Return whether a version of a group is answered for: of built-in ones, an unknown version with a Status."""
        versions = self._routes.groups.get(group, ())
        return version in versions or (bool(versions) and not self._routes.is_custom_group(group))

    def _root(self, groups: list[str], headers: Mapping[str, str], legacy: dict[str, Any]) -> APIResponse:
        accept = headers.get("accept", "")
        if "as=APIGroupDiscoveryList" not in accept or "v=v2" not in accept:
            _negotiate(accept)
            return json_response(encoded(legacy))
        body = encoded({
            "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": [self._group_discovery(group) for group in groups],
        })  # fmt: skip
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        caching = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
        if headers.get("if-none-match") == tag:
            return APIResponse(304, caching, b"")
        return APIResponse(200, {"Content-Type": _AGGREGATED, **caching}, body)

    def _kinds(self, group: str, version: str) -> list[Kind]:
        found = [kind for kind in self._routes.kinds if (kind.type.group, kind.type.version) == (group, version)]
        return found if self._routes.is_custom_group(group) else sorted(found, key=lambda kind: kind.type.plural)

    def _api_versions(self) -> dict[str, Any]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}

    def _group_list(self, groups: list[str]) -> dict[str, Any]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(group) for group in groups]}

    def _group(self, group: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in self._routes.groups[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, method: str, group: str, version: str, accept: str) -> APIResponse:
        kinds = self._kinds(group, version)
        if not kinds:
            raise no_such_resource()
        if not self._routes.is_custom_group(group):
            check_read(method, accept)
        _negotiate(accept)
        head: dict[str, Any] = {"kind": "APIResourceList"}
        if group:
            head["apiVersion"] = "v1"
        resources = [entry for kind in kinds for entry in _legacy_entries(kind)]
        return json_response(encoded({**head, "groupVersion": kinds[0].type.api_version, "resources": resources}))

    def _group_discovery(self, group: str) -> dict[str, Any]:
        versions = [
            {"version": name, "freshness": "Current", "resources": [_entry(k) for k in self._kinds(group, name)]}
            for name in self._routes.groups[group]
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}


def _negotiate(accept: str) -> None:
    if negotiate(accept).transformation:
        raise not_acceptable(", ".join(MEDIA_TYPES))


def _legacy_entries(kind: Kind) -> list[dict[str, Any]]:
    shared = {"namespaced": kind.type.namespaced, "kind": kind.type.kind}
    main: dict[str, Any] = {"name": kind.type.plural, "singularName": kind.singular, **shared, "verbs": kind.verbs}
    if kind.short_names:
        main["shortNames"] = kind.short_names
    if kind.categories:
        main["categories"] = kind.categories
    if "list" in kind.verbs and not kind.is_computed:
        main["storageVersionHash"] = _storage_version_hash(kind)
    return [main] + [
        {"name": f"{kind.type.plural}/{name}", "singularName": "", **shared, "verbs": SUBRESOURCE_VERBS[name]}
        | _spoken(name)
        for name in kind.subresources
    ]


def _storage_version_hash(kind: Kind) -> str:
    """Return what clients compare to see whether objects have to be stored in another version."""
    stored = kind.stored.type
    version = _STORED_VERSIONS.get(stored.kind, stored.version) if kind.custom is None else stored.version
    digest = hashlib.sha256(f"{stored.group}/{version}/{stored.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _entry(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.type.plural, "responseKind": _response_kind(kind.type.kind),
        "scope": "Namespaced" if kind.type.namespaced else "Cluster",
        "singularResource": kind.singular, "verbs": kind.verbs,
    }  # fmt: skip
    if kind.short_names:
        entry["shortNames"] = kind.short_names
    if kind.categories:
        entry["categories"] = kind.categories
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(kind.type.kind) | _spoken(name),
                "verbs": SUBRESOURCE_VERBS[name],
            }
            for name in kind.subresources
        ]
    return entry


def _spoken(subresource: str) -> dict[str, str]:
    """Return group, version and kind of a subresource that has its own type, such as Eviction of policy/v1."""
    names = zip(("group", "version", "kind"), SUBRESOURCE_KINDS.get(subresource, ()), strict=False)
    return {name: value for name, value in names if value}


def _response_kind(name: str) -> dict[str, str]:
    # Empty group and version mean those of the enclosing entry.
    return {"group": "", "version": "", "kind": name}
