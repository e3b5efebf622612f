"""Validation of updates of pods.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePodUpdate.
"""

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.schema.go_values import difference

_UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_HANDLED = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM_PARTS = ("matchExpressions", "matchFields")
_ADDITIONS = "only additions are allowed (no mutations or deletions)"
_LABEL_ADDITIONS = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"


def check_pod_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update from one pod spec to another."""
    for kind in ("containers", "initContainers"):
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            return [forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
    errors = _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if errors:
        return errors
    errors += _check_tolerations(new.get("tolerations") or [], old.get("tolerations") or [])
    errors += _check_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    changed = _with_kept(new, old)
    if old.get("schedulingGates"):
        errors += _check_gated(new, old, changed)
    if not semantic_equal(changed, old):
        errors.append(forbidden("spec", f"{_UPDATABLE}\n{difference('core.v1.PodSpec', old, changed)}"))
    return errors


def _with_kept(new: Manifest, old: Manifest) -> Manifest:
    """Return the new spec with those parts of the old one that may change."""
    changed = dict(new)
    for name in _HANDLED:
        changed[name] = old.get(name)
    for kind in ("containers", "initContainers"):
        if kind in new:
            changed[kind] = [
                {**after, "image": before.get("image")}
                for before, after in zip(old.get(kind) or (), new[kind], strict=True)
            ]
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        changed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    return changed


def _check_deadline(new: int | None, old: int | None) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if old is None:
        return []
    if new is None:
        return [invalid(field, None, "must not update from a positive integer to nil value")]
    return [invalid(field, new, "must be less than or equal to previous value")] if new > old else []


def _check_tolerations(new: list[Manifest], old: list[Manifest]) -> list[FieldError]:
    kept = [_without_seconds(toleration) for toleration in new]
    if all(_without_seconds(toleration) in kept for toleration in old):
        return []
    return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _without_seconds(toleration: Manifest) -> Manifest:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _check_gates(new: list[Manifest], old: list[Manifest]) -> list[FieldError]:
    known = {gate.get("name") for gate in old}
    return [
        forbidden(
            f"spec.schedulingGates[{position}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for position, gate in enumerate(new)
        if gate.get("name") not in known
    ]


def _check_gated(new: Manifest, old: Manifest, changed: Manifest) -> list[FieldError]:
    """Check the scheduling directives that a gated pod may still narrow, and take those of the old spec."""
    before, after = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    errors = [] if before.items() <= after.items() else [invalid("spec.nodeSelector", after, _LABEL_ADDITIONS)]
    changed["nodeSelector"] = old.get("nodeSelector")
    had, has = (old.get("affinity") or {}).get("nodeAffinity"), (new.get("affinity") or {}).get("nodeAffinity")
    others = {name: value for name, value in (new.get("affinity") or {}).items() if name != "nodeAffinity"}
    changed["affinity"] = ({**others, "nodeAffinity": had} if had else others) or None
    return errors + _check_required(_required_terms(has), _required_terms(had))


def _required_terms(affinity: Manifest | None) -> list[Manifest]:
    return ((affinity or {}).get(_REQUIRED) or {}).get("nodeSelectorTerms") or []


def _check_required(new: list[Manifest], old: list[Manifest]) -> list[FieldError]:
    """Check that no further node is selected: terms are ORed, their requirements ANDed."""
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if old and len(new) != len(old):
        return [invalid(field, new or None, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")]
    return [
        invalid(f"{field}[{position}]", after, _ADDITIONS)
        for position, (after, before) in enumerate(zip(new, old, strict=False))
        if not _only_grows(after, before)
    ]


def _only_grows(new: Manifest, old: Manifest) -> bool:
    # An empty term selects no node; with a requirement it would select some.
    if not any(old.get(part) for part in _TERM_PARTS):
        return not any(new.get(part) for part in _TERM_PARTS)
    return all((new.get(part) or [])[: len(old.get(part) or [])] == (old.get(part) or []) for part in _TERM_PARTS)
