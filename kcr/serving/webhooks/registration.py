"""The registration of a webhook: its options, rules, paths and handlers, checked once."""

import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import msgspec

from kcr.annotations import check_of_function, is_list, is_misfit, noun_of, results_of
from kcr.api.apps import Scale
from kcr.api.meta import Resource
from kcr.api.resources import ResourceType
from kcr.api.unstructured import unstructured
from kcr.arguments import check_fields
from kcr.serving.webhooks.review import Operation, WebhookRequest

# The methods of handlers: the operation of each, and its arguments.
METHODS: Mapping[str, tuple[Operation | None, str]] = {
    "default": (None, "obj, request"),
    "validate_create": ("CREATE", "obj, request"),
    "validate_update": ("UPDATE", "old, new, request"),
    "validate_delete": ("DELETE", "old, request"),
    "validate_connect": ("CONNECT", "options, request"),
}
# Their kinds, where a review carries another one than the kind itself: `""` for the core group; and the operation.
# Source: kubernetes/pkg/registry, the storages with NamedCreater or Connecter.
_SUBRESOURCES: Mapping[str, tuple[str, Operation]] = {
    "attach": ("v1 {kind}AttachOptions", "CONNECT"),
    "binding": ("v1 Binding", "CREATE"),
    "eviction": ("policy/v1 Eviction", "CREATE"),
    "exec": ("v1 {kind}ExecOptions", "CONNECT"),
    "portforward": ("v1 {kind}PortForwardOptions", "CONNECT"),
    "proxy": ("v1 {kind}ProxyOptions", "CONNECT"),
    "token": ("authentication.k8s.io/v1 TokenRequest", "CREATE"),
}
# Source: controller-runtime/pkg/builder/webhook.go, webhookPathStringValidation.
_PATH = re.compile(r"(/[a-zA-Z0-9_-]+)+|/")
# Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go: at least three segments.
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")


Warnings = Iterable[str] | None


class Defaulter(Protocol):
    """A webhook that changes objects."""

    def default(self, obj: Any, request: WebhookRequest, /) -> Awaitable[Resource | None] | Resource | None:
        """Return the changed object; None for no change."""


class CreateValidator(Protocol):
    """A webhook that validates new objects."""

    def validate_create(self, obj: Any, request: WebhookRequest, /) -> Warnings | Awaitable[Warnings]:
        """Raise `kcr.Denied`, or return warnings."""


class UpdateValidator(Protocol):
    """A webhook that validates changes."""

    def validate_update(self, old: Any, new: Any, request: WebhookRequest, /) -> Warnings | Awaitable[Warnings]:
        """Raise `kcr.Denied`, or return warnings."""


class DeleteValidator(Protocol):
    """A webhook that validates deletions."""

    def validate_delete(self, old: Any, request: WebhookRequest, /) -> Warnings | Awaitable[Warnings]:
        """Raise `kcr.Denied`, or return warnings."""


class ConnectValidator(Protocol):
    """A webhook that validates connections."""

    def validate_connect(self, options: Any, request: WebhookRequest, /) -> Warnings | Awaitable[Warnings]:
        """Raise `kcr.Denied`, or return warnings."""


# With one method or more. Which of them an object has is checked when it is registered.
Webhook = Defaulter | CreateValidator | UpdateValidator | DeleteValidator | ConnectValidator


class WebhookOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a webhook: each is written here, and is a keyword of `Manager.add_webhook`."""

    subresource: Annotated[
        str, "The subresource, such as `status`, `scale` or `exec`; empty for the object itself."
    ] = ""
    operations: Annotated[
        tuple[Operation, ...],
        "Limits the reviewed operations; empty for those of the methods: `default` is called on CREATE and UPDATE.",
    ] = ()
    failure_policy: Annotated[
        Literal["Fail", "Ignore"],
        "Whether requests fail or pass when the webhook does not answer, or answers with 500.",
    ] = "Fail"
    match_policy: Annotated[
        Literal["Equivalent", "Exact"], "Whether requests for other versions of the kind are converted and reviewed."
    ] = "Equivalent"
    side_effects: Annotated[
        Literal["None", "NoneOnDryRun"], "`NoneOnDryRun` for a webhook that writes: in a dry run, `client` writes dry."
    ] = "None"
    timeout_seconds: Annotated[int, "How long the API server waits: 1 to 30.", msgspec.Meta(ge=1, le=30)] = 10
    reinvocation_policy: Annotated[
        Literal["Never", "IfNeeded"], "Whether `default` is called again after a later webhook has changed the object."
    ] = "Never"
    namespace_selector: Annotated[Mapping[str, Any], "Selects the namespaces, as in manifests; empty for all."] = {}
    object_selector: Annotated[
        Mapping[str, Any], "Selects the objects by their labels, as in manifests; empty for all."
    ] = {}
    match_conditions: Annotated[
        Mapping[str, str], "CEL expressions by name; the webhook is called if all are true."
    ] = {}
    mutating_path: Annotated[str, "Where `default` is served; empty for `/mutate-<group>-<version>-<kind>`."] = ""
    validating_path: Annotated[str, "Where the validators are; empty for `/validate-<group>-<version>-<kind>`."] = ""
    name: Annotated[str, "Names the webhook to users; empty for one such as `validate.v1.websites.example.dev`."] = ""


class WebhookRule(NamedTuple):
    """One webhook of a configuration: the defaulters of a kind, or its validators.

    Attributes:
        resource: The kind that the rules name.
        object_kind: The type of the reviewed object: another one for subresources such as `scale`.
        is_mutating: Whether it is called to change objects, or to validate them.
        path: Where it is served.
        name: Its name in the configuration.
        operations: The reviewed operations.
        handlers: Called in this order.
        options: Its options.
    """

    resource: ResourceType
    object_kind: type[Resource]
    is_mutating: bool
    path: str
    name: str
    operations: tuple[Operation, ...]
    handlers: tuple[object, ...]
    options: WebhookOptions


def register(kind: type[Resource], webhook: object, options: WebhookOptions) -> tuple[WebhookRule, ...]:
    """Return the webhooks of a kind: one that mutates, one that validates, or both.

    Args:
        kind: The kind.
        webhook: An object with one or more methods of `METHODS`, or a sequence of such objects.
        options: The options of both.

    Raises:
        TypeError: A handler has none of the methods, or one with other arguments; or `kind` is not a kind.
        ValueError: An option has no such value.
    """
    about = f"webhook of {'/'.join(filter(None, (kind.resource.display, options.subresource)))}"
    _check_options(about, options)
    object_kind, possible = _object_kind(kind, options.subresource)
    handlers = handlers_of(about, webhook, object_kind)
    methods = {name for handler in handlers for name in METHODS if hasattr(handler, name)}
    made = []
    for is_mutating, path in ((True, options.mutating_path), (False, options.validating_path)):
        own = {name for name in methods if (name == "default") is is_mutating}
        if path and not own:
            raise ValueError(f"{about}: {path} would never be called: define a method that it serves")
        derived = [one for one in possible if (is_mutating and one != "DELETE") or _method_of(one) in own]
        operations = tuple(one for one in derived if not options.operations or one in options.operations)
        if own and not operations:
            asked = options.operations or possible
            raise ValueError(f"{about}: {' and '.join(sorted(own))} would never be called: operations are {asked}")
        if own:
            names = _default_names(kind.resource, is_mutating, options.subresource)
            made.append(
                WebhookRule(
                    kind.resource, object_kind, is_mutating, path or names[0], options.name or names[1], operations,
                    handlers, options,
                )
            )  # fmt: skip
    return tuple(made)


def _check_options(about: str, options: WebhookOptions) -> None:
    check_fields(about, options)
    for name in ("mutating_path", "validating_path"):
        path = getattr(options, name)
        if path and not _PATH.fullmatch(path):
            raise ValueError(
                f"{about}: {name} is {path!r}: use letters, digits, dashes and slashes, such as /mutate-me"
            )
    if options.mutating_path and options.mutating_path == options.validating_path:
        raise ValueError(f"{about}: mutating_path and validating_path are both {options.mutating_path}: use two")
    if options.name and not _NAME.fullmatch(options.name):
        raise ValueError(f"{about}: name is {options.name!r}: use three segments or more, such as image.example.dev")
    for selector in (options.namespace_selector, options.object_selector):
        if unknown := sorted(selector.keys() - {"matchLabels", "matchExpressions"}):
            raise ValueError(f"{about}: a selector has {unknown[0]!r}: use matchLabels and matchExpressions")


def handlers_of(about: str, webhook: object, kind: type[Resource]) -> tuple[object, ...]:
    """Return the handlers of a webhook: itself, or those of a sequence.

    Raises:
        TypeError: One of them has none of the methods, or one with other arguments.
    """
    handlers = tuple(webhook) if isinstance(webhook, Sequence) else (webhook,)
    if not handlers:
        raise TypeError(f"{about}: there is no webhook in the list: give it an object with a method, such as default")
    for handler in handlers:
        _check_handler(about, handler, kind)
    return handlers


def _check_handler(about: str, handler: object, kind: type[Resource]) -> None:
    shown = type(handler).__name__
    if isinstance(handler, type):
        raise TypeError(f"{about}: {handler.__name__} is a class: give it an object, {handler.__name__}(manager)")
    found = [name for name in METHODS if callable(getattr(handler, name, None))]
    if not found:
        raise TypeError(f"{about}: {shown} has none of the methods {', '.join(METHODS)}")
    for name in {*dir(handler)} - METHODS.keys():
        if (near := get_close_matches(name, METHODS, 1, 0.95)) and callable(getattr(handler, name)):
            raise TypeError(f"{about}: {shown}.{name} would never be called: call it {near[0]}")
    for name in found:
        arguments, method = METHODS[name][1], getattr(handler, name)
        if is_misfit(method, arguments.count(",") + 1):
            raise TypeError(f"{about}: {shown}.{name}: define it as {name}(self, {arguments})")
        check = check_of_function([kind] * arguments.count(",") + [WebhookRequest], Any)
        if fault := check.fault(method):
            raise TypeError(f"{about}: {shown}.{name}: {fault.remedy}")
        wrong = next((one for one in results_of(method) if not _is_result(name, one)), None)
        if wrong is not None:
            raise TypeError(f"{about}: {shown}.{name} says that it returns {noun_of(wrong)}: {result_of(name)}")


def _is_result(name: str, kind: type) -> bool:
    if kind is NoneType:
        return True
    return (
        issubclass(kind, Resource)
        if name == "default"
        else issubclass(kind, str) or (is_list(kind) and not issubclass(kind, Mapping))
    )


def result_of(name: str) -> str:
    """Return what a method is to return, in words."""
    if name == "default":
        return "return the changed object, or None"
    return "raise kcr.Denied to deny the request, return warnings as a list of strings, or None"


def _method_of(operation: Operation) -> str:
    return next(name for name, (own, _) in METHODS.items() if own == operation)


def _object_kind(kind: type[Resource], subresource: str) -> tuple[type[Resource], tuple[Operation, ...]]:
    if not subresource:
        return kind, ("CREATE", "UPDATE", "DELETE")
    if subresource == "scale":
        return Scale, ("UPDATE",)
    if subresource not in _SUBRESOURCES:
        # Such as `status`, `resize` and `ephemeralcontainers`: the object itself, in part.
        return kind, ("UPDATE",)
    named, operation = _SUBRESOURCES[subresource]
    api_version, name = named.format(kind=kind.resource.kind).split()
    return unstructured(api_version, name, plural=kind.resource.plural), (operation,)


def _default_names(resource: ResourceType, is_mutating: bool, subresource: str) -> tuple[str, str]:
    """Return the path and the name of a webhook.

    Source: controller-runtime/pkg/builder/webhook.go, generateMutatePath; subresources are an addition.
    """
    verb, suffix = ("mutate" if is_mutating else "validate"), f"-{subresource}" if subresource else ""
    path = f"/{verb}-{resource.group.replace('.', '-')}-{resource.version}-{resource.kind.lower()}{suffix}"
    parts = (verb, subresource, resource.version, resource.plural, resource.group or "core")
    return path, ".".join(part for part in parts if part)
