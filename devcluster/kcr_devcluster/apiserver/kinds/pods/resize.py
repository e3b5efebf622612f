"""The subresource pods/resize: changes the CPU and memory of containers, and nothing else.

Source: kubernetes/pkg/registry/core/pod/strategy.go, podResizeStrategy; pkg/apis/core/validation/validation.go,
ValidatePodResize.
"""

from typing import Any

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.pods.validation.resources import qos_class
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_pod_spec
from kcr_devcluster.apiserver.kinds.strategy import keep_metadata
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_LISTS = ("containers", "initContainers")
_RESIZED, _KEPT = ("cpu", "memory"), ("resources", "resizePolicy")
_ONLY = "only cpu and memory resources are mutable"
_MIRROR = "kubernetes.io/config.mirror"


def prepare_resize(new: Manifest, old: Manifest) -> None:
    """Keep all but the resources of containers and of the pod; other containers are left for validation to refuse."""
    keep_metadata(new, old)
    if any(len(new["spec"].get(name) or ()) != len(old["spec"].get(name) or ()) for name in _LISTS):
        return
    if "status" in old:
        new["status"] = old["status"]
    spec: Manifest = {name: value for name, value in old["spec"].items() if name != "resources"}
    if "resources" in new["spec"]:
        spec["resources"] = new["spec"]["resources"]
    for name in _LISTS:
        if old["spec"].get(name):
            spec[name] = _merged(new["spec"][name], old["spec"][name])
    new["spec"] = spec


def _merged(new: list[Manifest], old: list[Manifest]) -> list[Manifest]:
    if [one.get("name") for one in new] != [one.get("name") for one in old]:
        return new
    return [
        {name: value for name, value in before.items() if name not in _KEPT}
        | {name: after[name] for name in _KEPT if name in after}
        for after, before in zip(new, old, strict=True)
    ]


def validate_resize(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of a resize."""
    spec, before = new["spec"], old["spec"]
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("", "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("", "windows pods cannot be resized")]
    errors = check_pod_spec(spec, "spec")
    status = old.get("status") or {}
    if (status.get("qosClass") or qos_class(before)) != qos_class(spec):
        shown = (new.get("status") or {}).get("qosClass", "")
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _can_resize(status):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if moved := [error for name in _LISTS for error in _check_order(name, spec, before)]:
        return errors + moved
    for name in _LISTS:
        pairs = zip(spec.get(name) or (), before.get(name) or (), strict=True)
        for position, (after, was) in enumerate(pairs):
            errors += _check_container(name, position, after, was)
    return errors


def _can_resize(status: Manifest) -> bool:
    """Return whether the node shows that it can, by the resources of what runs; where nothing runs, it may."""
    running = next(
        (one for one in status.get("containerStatuses") or () if "running" in (one.get("state") or {})), None
    )
    return running is None or "resources" in running


def _check_order(name: str, new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = ([one.get("name") for one in spec.get(name) or ()] for spec in (new, old))
    if len(after) != len(before):
        return [forbidden(f"spec.{name}", f"{name} may not be added or removed on resize")]
    words = f"{name} may not be renamed or reordered on resize"
    return [
        forbidden(f"spec.{name}[{position}].name", words)
        for position, (one, other) in enumerate(zip(after, before, strict=True))
        if one != other
    ]


def _check_container(name: str, position: int, new: Manifest, old: Manifest) -> list[FieldError]:
    after, before = new.get("resources") or {}, old.get("resources") or {}
    path = f"spec.{name}[{position}]"
    errors = [
        forbidden(f"{path}.resources.{part}", f"resource {part} cannot be removed")
        for part in ("requests", "limits")
        if not (before.get(part) or {}).keys() <= (after.get(part) or {}).keys()
    ]
    if name == "containers":
        return errors if same_json(_fixed(new), _fixed(old)) else [*errors, forbidden("spec", _ONLY)]
    if not same_json(_fixed(new), _fixed(old)):
        errors.append(forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable"))
    restarts = any(one.get("restartPolicy") == "RestartContainer" for one in new.get("resizePolicy") or ())
    if restarts and old.get("restartPolicy") != "Always" and not same_json(new, old):
        words = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors.append(forbidden(path, words))
    return errors


def _fixed(container: Manifest) -> Any:
    """Return a container without the amounts that a resize changes."""
    resources = container.get("resources") or {}
    kept = {
        part: {name: amount for name, amount in (resources.get(part) or {}).items() if name not in _RESIZED}
        for part in ("requests", "limits")
    }
    return {**container, "resources": {**resources, **kept}}
