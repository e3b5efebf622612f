"""Routing: from the target of a request to kind, namespace, name and subresource; and the query."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from kcr.api.durations import parse_duration
from kcr_devcluster.apiserver.kinds.access.reviews import VirtualKind
from kcr_devcluster.apiserver.kinds.catalogue import SUBRESOURCE_VERBS, Kind
from kcr_devcluster.apiserver.kinds.field_errors import FieldError, forbidden, not_supported, required, too_long
from kcr_devcluster.apiserver.kinds.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.responses import (
    bad_request,
    invalid,
    invalid_option,
    method_not_allowed,
    no_such_resource,
    not_found,
)

_UNSIGNED, _INTEGER = re.compile(r"[0-9]+"), re.compile(r"[+-]?[0-9]+")
_LONGEST_INTEGER = 1_000
_LONGEST_MANAGER = 128
_FALSE = ("", "0", "false")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_VERBS: Mapping[str, tuple[str, ...]] = {
    "GET": ("get", "list", "watch"), "POST": ("create",), "PUT": ("update",), "PATCH": ("patch",),
    "DELETE": ("delete", "deletecollection"),
}  # fmt: skip


def parse_integer(text: str, function: str) -> int:
    """Return a number of 64 bits.

    Args:
        text: The number.
        function: `ParseInt`, or `ParseUint` for one that is not negative; it is named in the message.

    Raises:
        StatusError: 400, it is none.
    """
    low, high = (-(1 << 63), 1 << 63) if function == "ParseInt" else (0, 1 << 64)
    if not (_INTEGER if low else _UNSIGNED).fullmatch(text):
        raise bad_request(f'strconv.{function}: parsing "{text}": invalid syntax')
    if len(text) > _LONGEST_INTEGER or not low <= int(text) < high:
        raise bad_request(f'strconv.{function}: parsing "{text}": value out of range')
    return int(text)


def field_manager_faults(name: str) -> list[FieldError]:
    """Return the field errors of a `fieldManager`.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, ValidateFieldManager.
    """
    errors = [too_long("fieldManager", _LONGEST_MANAGER)] if len(name.encode()) > _LONGEST_MANAGER else []
    if not name.isprintable():
        errors.append(invalid_field("fieldManager", name, "should only contain printable characters"))
    return errors


class Query:
    """The query of a request. Unknown parameters are ignored."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._values = dict(parse_qsl(text, keep_blank_values=True)) if text else {}

    def text(self, name: str) -> str:
        """Return a parameter, `""` when it is absent."""
        return self._values.get(name, "")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all values of a parameter, in their order."""
        return tuple(value for key, value in parse_qsl(self._text, keep_blank_values=True) if key == name)

    def has(self, name: str) -> bool:
        """Return whether a parameter is there at all."""
        return name in self._values

    def flag(self, name: str) -> bool:
        """Return a boolean: anything but empty, `0` and `false` is true."""
        return self._values.get(name, "").lower() not in _FALSE

    def integer(self, name: str) -> int | None:
        """Return a number, None when it is absent.

        Raises:
            StatusError: 400, it is no number.
        """
        text = self._values.get(name, "")
        if not text:
            return None
        return parse_integer(text, "ParseInt")

    def timeout_seconds(self) -> float | None:
        """Return the timeout of the request, None for none.

        Raises:
            StatusError: 400, it is no duration.
        """
        if not (text := self.text("timeout")):
            return None
        try:
            nanoseconds = parse_duration(text)
            if nanoseconds < 0:
                raise ValueError(f'time: invalid duration "{text}"')
        except ValueError as error:
            raise bad_request(f"invalid timeout specified in the request URL - {error}") from error
        return nanoseconds / 1e9 or None

    def dry_run(self, options: str, *, is_apply: bool = False) -> bool:
        """Return whether the write is only tried.

        Args:
            options: What messages call the options.
            is_apply: Whether the write is a server-side apply, which has to name its field manager and may force.

        Raises:
            StatusError: 422, an option of writes has an unknown value.
        """
        if (validation := self.text("fieldValidation")) not in _VALIDATIONS:
            raise invalid_option(options, not_supported("fieldValidation", validation, _VALIDATIONS))
        manager = self.text("fieldManager")
        errors = field_manager_faults(manager) if manager else []
        if is_apply:
            errors += [] if manager else [required("fieldManager", "is required for apply patch")]
        elif options == "PatchOptions" and self.has("force"):
            errors.append(forbidden("force", "may not be specified for non-apply patch"))
        if errors:
            raise invalid(options, "meta.k8s.io", "", errors)
        if not (text := self.text("dryRun")):
            return False
        if text != "All":
            raise invalid_option(options, not_supported("dryRun", [text], ["All"]))
        return True


class Route(NamedTuple):
    """What a path names.

    Attributes:
        kind: The kind.
        namespace: `""` for all namespaces.
        name: `""` for the collection.
        subresource: `""` for the object itself.
        is_watch: Whether it is an older path of watches, below `/watch/`.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str
    is_watch: bool = False

    def watches(self, query: Query) -> bool:
        """Return whether a GET is a watch."""
        return self.is_watch or (not self.name and query.flag("watch"))

    @property
    def is_writable_collection(self) -> bool:
        """Whether objects can be created and collections deleted here."""
        return not self.name and (bool(self.namespace) or not self.kind.type.namespaced)


def timeout_seconds(route: Route | None, query: Query) -> float | None:
    """Return the timeout of a request, None for none; watches and logs have their own.

    Raises:
        StatusError: 400, it is no duration.
    """
    if not query.text("timeout") or (route is not None and (route.subresource == "log" or route.watches(query))):
        return None
    return query.timeout_seconds()


_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Return what orders the versions of a group: released before beta before alpha, the highest first.

    Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/version/helpers.go, CompareKubeAwareVersionStrings.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return 3, 0, 0, version
    return {None: 0, "beta": 1, "alpha": 2}[found[2]], -int(found[1]), -int(found[3] or 0), ""


class Routes:
    """Finds the kinds by their paths.

    Attributes:
        builtin: The kinds that are always served.
        kinds: All kinds that are served now.
        groups: Their groups, each with its versions.
        generation: Grows with each change of what is served.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.builtin = tuple(kinds)
        self.generation = 0
        # By the name of their definition.
        self._custom: dict[str, tuple[Kind, ...]] = {}
        self._builtin_groups = {kind.type.group for kind in self.builtin}
        self._index()

    def set_custom(self, name: str, kinds: tuple[Kind, ...]) -> None:
        """Serve the kinds of a definition, those and no others.

        Args:
            name: The name of the definition.
            kinds: Its kinds; empty for none.
        """
        if kinds:
            self._custom[name] = kinds
        else:
            self._custom.pop(name, None)
        self.generation += 1
        self._index()

    def is_custom_group(self, group: str) -> bool:
        """Return whether a group has custom resources only."""
        return group not in self._builtin_groups

    def _index(self) -> None:
        self.kinds = (*self.builtin, *(kind for name in sorted(self._custom) for kind in self._custom[name]))
        self._by_place = {(k.type.group, k.type.version, k.type.plural): k for k in self.kinds}
        current = {k.type.group for k in self.kinds if k.conversion is None or not k.conversion.warning}
        # Groups that hold nothing but deprecated versions come last.
        self.groups: Mapping[str, tuple[str, ...]] = {
            group: self._versions(group)
            for group in sorted({k.type.group for k in self.kinds}, key=lambda name: (name not in current, name))
        }

    def _versions(self, group: str) -> tuple[str, ...]:
        found = dict.fromkeys(kind.type.version for kind in self.kinds if kind.type.group == group)
        return tuple(sorted(found, key=version_priority)) if self.is_custom_group(group) else tuple(found)

    def find(self, group: str, version: str, steps: list[str]) -> Route | None:
        """Return what the rest of a path names, behind `/api/v1` or `/apis/G/V`.

        Returns:
            None in a group of custom resources, where upstream's handler knows no such path.

        Raises:
            StatusError: 404, there is no such resource.
        """
        steps = [unquote(step) if "%" in step else step for step in steps]
        namespace = ""
        if len(steps) > 2 and steps[0] == "namespaces" and not self._is_own_subresource(group, steps):
            namespace, steps = steps[1], steps[2:]
        plural, name, subresource, *more = [*steps, "", "", ""][: max(3, len(steps))]
        kind = self._by_place.get((group, version, plural))
        if kind is None and self.is_custom_group(group):
            return None
        if kind is None or more or "" in steps:
            raise no_such_resource()
        if kind.type.namespaced != bool(namespace) and (namespace or name):
            raise no_such_resource()
        if subresource and subresource not in kind.subresources:
            if kind.custom is not None:
                raise not_found(kind.type, name)
            raise no_such_resource()
        return Route(kind, namespace, name, subresource)

    def find_watch(self, group: str, version: str, steps: list[str]) -> Route | None:
        """Return what the rest of an older path of watches names, behind `/api/v1/watch` or `/apis/G/V/watch`.

        Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/installer.go, WATCH and WATCHLIST.

        Returns:
            None in a group of custom resources, where upstream's handler knows no such path.

        Raises:
            StatusError: 404, there is no such resource; subresources have no such path.
        """
        route = self.find(group, version, steps)
        if route is not None and route.subresource:
            raise no_such_resource()
        return None if route is None else route._replace(is_watch=True)

    def _is_own_subresource(self, group: str, steps: list[str]) -> bool:
        return not group and len(steps) == 3 and steps[2] in ("status", "finalize")


def check_method(route: Route, method: str) -> None:
    """Refuse a method that the path does not support.

    Raises:
        StatusError: 405.
    """
    verbs = _VERBS.get(method, ())
    if route.is_watch:
        allowed = method == "GET"
    elif route.subresource:
        allowed = any(verb in SUBRESOURCE_VERBS[route.subresource] for verb in verbs)
    elif route.kind.is_computed:
        allowed = method == "GET"
    elif route.name:
        allowed = method != "POST" and bool(verbs) and not isinstance(route.kind, VirtualKind)
    elif method == "DELETE":
        allowed = route.is_writable_collection and "deletecollection" in route.kind.verbs
    else:
        reads = method == "GET" and not isinstance(route.kind, VirtualKind)
        allowed = reads or (method == "POST" and route.is_writable_collection)
    if not allowed:
        raise method_not_allowed()
