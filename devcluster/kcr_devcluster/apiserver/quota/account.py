"""One quota: its limits and the usage of all objects together.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest;
kubernetes/pkg/controller/resourcequota/resource_quota_controller.go, syncResourceQuota.
"""

from collections.abc import Iterable
from datetime import datetime

from kcr_devcluster.apiserver.kinds.catalogue import PODS
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.quota.usage import NO_USAGE, SCOPES, Amounts, Usage, missing_resources, usage_of
from kcr_devcluster.apiserver.schema.quantities import amount, family, written


class TrackedQuota:
    """The limits and usage of one quota.

    Attributes:
        name: The quota's name.
        spec: The quota's spec.
    """

    def __init__(self, name: str, spec: Manifest) -> None:
        self.name = name
        self.spec = spec
        self._hard: dict[str, str] = spec.get("hard") or {}
        self._limits = {resource: amount(text) for resource, text in self._hard.items()}
        self._scopes = scopes_of(spec)
        # Always the sum of the usages, for each resource that is limited.
        self._used = dict.fromkeys(self._limits, 0)
        # By object, without those that use nothing.
        self._usages: dict[str, Usage] = {}
        # By object, when its usage shrinks.
        self._expiring: dict[str, datetime] = {}

    def usage_of(self, kind: Kind, obj: Manifest) -> Usage:
        """Return an object's usage of this quota."""
        if not self._matches(kind, obj):
            return NO_USAGE
        usage = usage_of(kind, obj)
        return Usage(self._limited(usage.amounts), usage.until, self._limited(usage.rest))

    def _matches(self, kind: Kind, obj: Manifest) -> bool:
        if not self._scopes:
            return True
        return kind is PODS and all(scope in SCOPES and SCOPES[scope](obj) for scope in self._scopes)

    def _limited(self, amounts: Amounts) -> Amounts:
        return {name: value for name, value in amounts.items() if name in self._limits}

    def set_usage(self, key: str, usage: Usage) -> bool:
        """Set the usage of an object, and return whether the sum changes."""
        before = self._usages.pop(key, NO_USAGE)
        self._expiring.pop(key, None)
        for name, value in before.amounts.items():
            self._used[name] -= value
        for name, value in usage.amounts.items():
            self._used[name] += value
        if usage.amounts:
            self._usages[key] = usage
            if usage.until is not None:
                self._expiring[key] = usage.until
        return before.amounts != usage.amounts

    def rejection(self, kind: Kind, obj: Manifest, old: Manifest | None, now: datetime) -> str:
        """Return why an object is rejected, `""` when it is not.

        Args:
            kind: The kind of the object.
            obj: The object.
            old: The stored one; None for a new object.
            now: The moment to judge at.
        """
        wanted = self.usage_of(kind, obj).amounts
        if kind is PODS and self._matches(kind, obj) and (missing := missing_resources(obj["spec"], self._limits)):
            return f"failed quota: {self.name}: must specify {missing}"
        if old is not None:
            before = self.usage_of(kind, old).amounts
            more = {name: value - before.get(name, 0) for name, value in wanted.items()}
            wanted = {name: value for name, value in more.items() if value > 0}
        if not self._exceeded(wanted):
            return ""
        self._expire(now)
        over = self._exceeded(wanted)
        if not over:
            return ""
        return (
            f"exceeded quota: {self.name}, requested: {self._listed(wanted, over)}, "
            f"used: {self._listed(self._used, over)}, limited: {self._listed(self._limits, over)}"
        )

    def _exceeded(self, wanted: Amounts) -> list[str]:
        return sorted(name for name, value in wanted.items() if self._used[name] + value > self._limits[name])

    def _expire(self, now: datetime) -> None:
        """Release the usage of terminating pods whose grace period is over."""
        for key in [key for key, until in self._expiring.items() if until < now]:
            self.set_usage(key, Usage(self._usages[key].rest))

    def _listed(self, amounts: Amounts, names: Iterable[str]) -> str:
        return ",".join(f"{name}={self._text(name, amounts[name])}" for name in names)

    def _text(self, name: str, value: int) -> str:
        return written(value, family(self._hard[name]))

    def status(self, now: datetime) -> Manifest:
        """Return the quota's status."""
        self._expire(now)
        return {"hard": self._hard, "used": {name: self._text(name, value) for name, value in self._used.items()}}


def scopes_of(spec: Manifest) -> tuple[str, ...]:
    """Return the scopes of a quota; a selector with another operator than Exists is named with it."""
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    chosen = (
        one.get("scopeName", "") if one.get("operator") == "Exists" else f"{one.get('scopeName')} {one.get('operator')}"
        for one in selector
    )
    return (*(spec.get("scopes") or ()), *chosen)
