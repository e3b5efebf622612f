"""One quota: what it allows, and what is used of it.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest;
kubernetes/pkg/controller/resourcequota/resource_quota_controller.go, syncResourceQuota.
"""

from collections.abc import Iterable
from datetime import datetime

from kcr.apiserver.kinds.catalogue import PODS, Kind
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.quota.usage import NOTHING, SCOPES, Amounts, Share, share_of, unstated
from kcr.apiserver.schema.quantities import amount, family, written


class Account:
    """Keeps the sum of what the objects of a namespace take of one quota.

    Attributes:
        name: The quota's name.
        spec: What it says.
    """

    def __init__(self, name: str, spec: Manifest) -> None:
        self.name = name
        self.spec = spec
        self._hard: dict[str, str] = spec.get("hard") or {}
        self._limits = {resource: amount(text) for resource, text in self._hard.items()}
        self._scopes = scopes_of(spec)
        # Always the sum of the shares, for each resource that is limited.
        self._used = dict.fromkeys(self._limits, 0)
        # By object, those that take nothing left out.
        self._shares: dict[str, Share] = {}
        # The shares that will shrink.
        self._passing: dict[str, datetime] = {}

    def share_of(self, kind: Kind, obj: Manifest) -> Share:
        """Return what an object takes of this quota."""
        if not self._is_about(kind, obj):
            return NOTHING
        share = share_of(kind, obj)
        return Share(self._limited(share.amounts), share.until, self._limited(share.rest))

    def _is_about(self, kind: Kind, obj: Manifest) -> bool:
        return not self._scopes or (kind is PODS and all(_is_in(scope, obj) for scope in self._scopes))

    def _limited(self, amounts: Amounts) -> Amounts:
        return {name: value for name, value in amounts.items() if name in self._limits}

    def note(self, place: str, share: Share) -> bool:
        """Take note of what an object takes from now on, and return whether that changes the sum."""
        before = self._shares.pop(place, NOTHING)
        self._passing.pop(place, None)
        for name, value in before.amounts.items():
            self._used[name] -= value
        for name, value in share.amounts.items():
            self._used[name] += value
        if share.amounts:
            self._shares[place] = share
            if share.until is not None:
                self._passing[place] = share.until
        return before.amounts != share.amounts

    def refusal(self, kind: Kind, obj: Manifest, now: datetime) -> str:
        """Return why a new object is too much, `""` when it is not."""
        share = self.share_of(kind, obj)
        if kind is PODS and self._is_about(kind, obj) and (missing := unstated(obj["spec"], self._limits)):
            return f"failed quota: {self.name}: must specify {missing}"
        if not self._exceeded(share.amounts):
            return ""
        self._settle(now)
        over = self._exceeded(share.amounts)
        if not over:
            return ""
        return (
            f"exceeded quota: {self.name}, requested: {self._listed(share.amounts, over)}, "
            f"used: {self._listed(self._used, over)}, limited: {self._listed(self._limits, over)}"
        )

    def _exceeded(self, wanted: Amounts) -> list[str]:
        return sorted(name for name, value in wanted.items() if self._used[name] + value > self._limits[name])

    def _settle(self, now: datetime) -> None:
        """Give back what pods held that should be gone by now."""
        for place in [place for place, until in self._passing.items() if until < now]:
            self.note(place, Share(self._shares[place].rest))

    def _listed(self, amounts: Amounts, names: Iterable[str]) -> str:
        return ",".join(f"{name}={self._text(name, amounts[name])}" for name in names)

    def _text(self, name: str, value: int) -> str:
        return written(value, family(self._hard[name]))

    def status(self, now: datetime) -> Manifest:
        """Return the quota's status."""
        self._settle(now)
        return {"hard": self._hard, "used": {name: self._text(name, value) for name, value in self._used.items()}}


def scopes_of(spec: Manifest) -> tuple[str, ...]:
    """Return the scopes of a quota; what asks for more than that one holds is named by an operator as well."""
    selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    chosen = (
        one.get("scopeName", "") if one.get("operator") == "Exists" else f"{one.get('scopeName')} {one.get('operator')}"
        for one in selector
    )
    return (*(spec.get("scopes") or ()), *chosen)


def _is_in(scope: str, pod: Manifest) -> bool:
    return scope in SCOPES and SCOPES[scope](pod)
