"""The strategies of Namespaces and Nodes.

Source: kubernetes/pkg/registry/core/{namespace,node}/strategy.go; pkg/apis/core/validation/validation.go,
ValidateNamespace, ValidateNode and ValidateNodeUpdate.
"""

import re
from collections.abc import Sequence

from kcr_devcluster.apiserver.kinds.formats import check_cidr, parse_cidr
from kcr_devcluster.apiserver.kinds.pods.validation.scheduling import TAINT_EFFECTS
from kcr_devcluster.apiserver.kinds.strategy import Strategy, UpdateRules
from kcr_devcluster.apiserver.protocol.field_errors import (
    NON_NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    internal_error,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.gotexts import quoted
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_finalizer, label_value, qualified_name
from kcr_devcluster.apiserver.schema.go_values import as_go
from kcr_devcluster.apiserver.schema.quantities import amount

# One for each family of addresses.
_MOST_RANGES = 2
_LONGEST_FEATURE, _FEATURE = 253, re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_WORDS = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Namespaces carry their name as a label, and a finalizer of their own in the spec."""

    stored_as = ("v1", "Namespace")

    def default(self, obj: Manifest) -> None:
        """Add the label that selectors of namespaces use."""
        super().default(obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}

    def prepare_create(self, obj: Manifest) -> None:
        """Set the finalizer that holds the namespace until it is empty, and the phase."""
        spec: Manifest = obj.get("spec") or {}
        finalizers: list[str] = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        obj["spec"] = {**spec, "finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status and the finalizers of the spec, which only `/finalize` changes."""
        super().prepare_update(new, old)
        spec: Manifest = {name: value for name, value in (new.get("spec") or {}).items() if name != "finalizers"}
        kept = (old.get("spec") or {}).get("finalizers")
        new["spec"] = {**spec, "finalizers": kept} if kept else spec

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new namespace."""
        finalizers = (obj.get("spec") or {}).get("finalizers") or ()
        return [error for name in finalizers for error in _check_finalizer(name, "spec.finalizers")]

    def update_rules(self, subresource: str) -> UpdateRules:
        """Return the rules of an update; `/finalize` has its own."""
        if subresource == "finalize":
            return UpdateRules(_prepare_finalize, _validate_finalize)
        return super().update_rules(subresource)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status: the phase follows from the deletion."""
        phase = (new.get("status") or {}).get("phase", "")
        terminating = "deletionTimestamp" in old["metadata"]
        if phase == ("Terminating" if terminating else "Active"):
            return []
        words = (
            "may only be 'Terminating' if `deletionTimestamp` is not empty"
            if terminating
            else "may only be 'Active' if `deletionTimestamp` is empty"
        )
        return [invalid("status.Phase", phase, words)]


def _prepare_finalize(new: Manifest, old: Manifest) -> None:
    """Keep the status."""
    new["status"] = old["status"]


def _validate_finalize(new: Manifest, old: Manifest) -> list[FieldError]:
    finalizers = (new.get("spec") or {}).get("finalizers") or ()
    return [
        error for place, name in enumerate(finalizers) for error in _check_finalizer(name, f"spec.finalizers[{place}]")
    ]


def _check_finalizer(name: str, field: str) -> list[FieldError]:
    return [invalid(field, name, reason) for reason in qualified_name(name)] + check_finalizer(name, field)


class NodeStrategy(Strategy):
    """Nodes register with their status; allocatable resources are the capacity unless the node says less."""

    stored_as = ("v1", "Node")

    def default(self, obj: Manifest) -> None:
        """Set `allocatable`, which is `capacity` when it is not there."""
        super().default(obj)
        status = obj["status"]
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        spec = obj["spec"]
        ranges = spec.get("podCIDRs") or ()
        if (first := spec.get("podCIDR")) and first not in ranges[:1]:
            spec["podCIDRs"] = [first]
        elif ranges and not first:
            spec["podCIDR"] = ranges[0]

    def prepare_create(self, obj: Manifest) -> None:
        """Drop where the kubelet's configuration once came from."""
        obj["spec"].pop("configSource", None)
        obj["status"].pop("config", None)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status, and drop that here, too."""
        super().prepare_update(new, old)
        new["spec"].pop("configSource", None)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep the spec, and drop the kubelet's configuration."""
        super().prepare_status(new, old)
        new["status"].pop("config", None)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about fields that nothing reads any more."""
        if "externalID" not in new["spec"]:
            return []
        return ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new node."""
        spec = obj["spec"]
        errors = _check_taints(spec.get("taints") or (), "metadata.taints") + _check_capacity(obj["status"])
        errors += _check_features(obj["status"])
        return errors + _check_ranges(spec.get("podCIDRs") or [])

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update: addresses of pods and the provider's name are set once."""
        after, before = new["spec"], old.get("spec") or {}
        taint_errors = _check_taints(after.get("taints") or (), "metadata.taints")
        ranges, stored = after.get("podCIDRs") or [], before.get("podCIDRs") or []
        errors = taint_errors + _check_ranges(ranges)
        if stored:
            changes = sum(one != other for one, other in zip(ranges, stored, strict=False))
            words = 'node updates may not change podCIDR except from "" to valid'
            errors += [forbidden("spec.podCIDRs", words)] * (1 if len(ranges) != len(stored) else changes)
        if before.get("providerID") and before["providerID"] != after.get("providerID"):
            words = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", words))
        # Upstream validates the node, and its update: each is a cause twice.
        errors += taint_errors
        if after.get("externalID", "") != before.get("externalID", ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        # Upstream validates the node, and its update: each is a cause twice.
        features = _check_features(new["status"])
        errors = features + _check_capacity(new["status"]) + features
        addresses = new["status"].get("addresses") or []
        return errors + [duplicate(f"status.addresses[{position}]", one)
                         for position, one in enumerate(addresses) if one in addresses[:position]]  # fmt: skip


def _check_ranges(ranges: list[str]) -> list[FieldError]:
    """Return the field errors of the ranges of the addresses of a node's pods."""
    field = "spec.podCIDRs"
    errors = [error for position, one in enumerate(ranges) for error in check_cidr(f"{field}[{position}]", one)]
    if len(ranges) < _MOST_RANGES:
        return errors
    found = [parse_cidr(one) for one in ranges]
    if None in found:
        at = found.index(None)
        why = f"invalid CIDR[{at}]: <nil> (invalid CIDR address: {ranges[at]})"
        errors.append(internal_error(field, f"invalid PodCIDRs. failed to check with dual stack with error:{why}"))
    families = {one.version for one in found if one is not None}
    if None in found or len(families) < _MOST_RANGES or len(ranges) > _MOST_RANGES:
        errors.append(invalid(field, ranges, "may specify no more than one CIDR for each IP family"))
    return errors


def _check_capacity(status: Manifest) -> list[FieldError]:
    return [
        invalid(f"status.{member}.{name}", value, NON_NEGATIVE)
        for member in ("capacity", "allocatable")
        for name, value in (status.get(member) or {}).items()
        if amount(value) < 0
    ]


def _check_features(status: Manifest) -> list[FieldError]:
    """Return the field errors of the features that a node declares: sorted names, each once."""
    errors, features = list[FieldError](), status.get("declaredFeatures") or []
    for position, name in enumerate(features):
        field = f"status.declaredFeatures[{position}]"
        if position and features[position - 1] == name:
            errors.append(duplicate(field, name))
        elif position and features[position - 1] > name:
            errors.append(invalid(field, name, "list must be sorted alphabetically"))
        if len(name) > _LONGEST_FEATURE:
            why = f"must be no more than {_LONGEST_FEATURE} characters"
        elif not _FEATURE.fullmatch(name):
            why = _FEATURE_WORDS
        else:
            continue
        errors.append(invalid(field, name, f"invalid feature name {quoted(name)}: {why}"))
    return errors


def _check_taints(taints: Sequence[Manifest], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for position, taint in enumerate(taints):
        path, key, effect = f"{field}[{position}]", taint.get("key", ""), taint.get("effect", "")
        errors += [invalid(f"{path}.key", key, reason) for reason in qualified_name(key)]
        if reasons := label_value(taint.get("value", "")):
            errors.append(invalid(f"{path}.value", taint["value"], ";".join(reasons)))
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            found = duplicate(path, as_go("core.v1.Taint", "", taint))
            errors.append(found._replace(detail="taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors
