"""The strategy of Mutating- and ValidatingWebhookConfigurations.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateValidatingWebhookConfiguration,
validateMutatingWebhookConfiguration and their updates; pkg/registry/admissionregistration/*webhookconfiguration.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.admission.clients import check_client_config
from kcr_devcluster.apiserver.kinds.admission.rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    check_choice,
    check_rule,
)
from kcr_devcluster.apiserver.kinds.admission.strategies import AdmissionStrategy, check_match_conditions
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_1035_label, dns_subdomain

REVIEW_VERSIONS = ("v1", "v1beta1")
_WITHOUT_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = (*_WITHOUT_SIDE_EFFECTS, "Some", "Unknown")
_LONGEST_TIMEOUT = 30
_SELECTORS = ("namespaceSelector", "objectSelector")
_SELECTOR_VALUE = re.compile(r".*\.matchExpressions\[\d+\]\.values\[\d+\]")


class _Rules(NamedTuple):
    """The rules that an update need not keep, because the stored configuration breaks them.

    Attributes:
        side_effects: The values that `sideEffects` may have.
        recognized: Whether a webhook must accept a review of a known version.
        unique: Whether the names of webhooks must differ.
        strict_selectors: Whether the values in selectors must be valid values of labels.
        conditions: Whether match conditions are checked.
    """

    side_effects: tuple[str, ...] = _WITHOUT_SIDE_EFFECTS
    recognized: bool = True
    unique: bool = True
    strict_selectors: bool = True
    conditions: bool = True


class WebhookConfigurationStrategy(AdmissionStrategy):
    """Mutating- and ValidatingWebhookConfigurations: a change of the webhooks is a new generation."""

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether the webhooks differ."""
        return bool(new.get("webhooks") != old.get("webhooks"))

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new configuration."""
        return list(self._check(obj, _Rules()))

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update, without those that the stored configuration has, too."""
        return list(self._check(new, _rules_of_update(_hooks(new), _hooks(old))))

    def _check(self, obj: Manifest, rules: _Rules) -> Iterator[FieldError]:
        names: set[str] = set()
        for position, hook in enumerate(_hooks(obj)):
            path, name = f"webhooks[{position}]", hook.get("name", "")
            yield from _check_hook(hook, path, rules)
            if rules.conditions:
                conditions = hook.get("matchConditions") or ()
                yield from check_match_conditions(conditions, f"{path}.matchConditions", False)
            versions = hook.get("admissionReviewVersions") or ()
            yield from _check_versions(versions, f"{path}.admissionReviewVersions", rules)
            if rules.unique and name and name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)


def _hooks(obj: Manifest) -> Sequence[Manifest]:
    found: Sequence[Manifest] = obj.get("webhooks") or ()
    return found


def _rules_of_update(new: Sequence[Manifest], old: Sequence[Manifest]) -> _Rules:
    names = [one.get("name") for one in old]
    had_side_effects = any(one.get("sideEffects") not in _WITHOUT_SIDE_EFFECTS for one in old)
    unknown = any(_is_unrecognized(one.get("admissionReviewVersions") or ()) for one in old)
    lax = any(check_selector(one.get(name) or {}, "") for one in old for name in _SELECTORS)
    same = [one.get("matchConditions") for one in new] == [one.get("matchConditions") for one in old]
    side_effects = _SIDE_EFFECTS if had_side_effects else _WITHOUT_SIDE_EFFECTS
    return _Rules(side_effects, not unknown, len(set(names)) == len(names), not lax, not same)


def _is_unrecognized(versions: Sequence[str]) -> bool:
    return bool(versions) and not any(one in REVIEW_VERSIONS for one in versions)


def _check_hook(hook: Manifest, path: str, rules: _Rules) -> Iterator[FieldError]:
    yield from _check_name(hook.get("name", ""), f"{path}.name")
    for position, rule in enumerate(hook.get("rules") or ()):
        yield from check_rule(rule, f"{path}.rules[{position}]")
    yield from check_choice(hook, path, "failurePolicy", FAILURE_POLICIES)
    yield from check_choice(hook, path, "matchPolicy", MATCH_POLICIES)
    if hook.get("sideEffects") is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(rules.side_effects)}")
    yield from check_choice(hook, path, "sideEffects", rules.side_effects)
    seconds = hook.get("timeoutSeconds", 1)
    if not 1 <= seconds <= _LONGEST_TIMEOUT:
        yield invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    for name in _SELECTORS:
        for error in check_selector(hook.get(name) or {}, f"{path}.{name}"):
            if rules.strict_selectors or not _SELECTOR_VALUE.fullmatch(error.field):
                yield error
    yield from check_choice(hook, path, "reinvocationPolicy", REINVOCATION_POLICIES)
    yield from check_client_config(hook.get("clientConfig") or {}, f"{path}.clientConfig")


def _check_name(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif reasons := dns_subdomain(name):
        yield invalid(path, name, ",".join(reasons))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _check_versions(versions: Sequence[str], path: str, rules: _Rules) -> Iterator[FieldError]:
    if not versions:
        yield required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")
        return
    for position, version in enumerate(versions):
        if version in versions[:position]:
            yield invalid(f"{path}[{position}]", version, "duplicate version")
            continue
        yield from (invalid(f"{path}[{position}]", version, reason) for reason in dns_1035_label(version))
    if rules.recognized and _is_unrecognized(versions):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
