"""The behaviour of quotas and limit ranges.

Source: kubernetes/pkg/registry/core/resourcequota/strategy.go; pkg/apis/core/validation/validation.go,
ValidateResourceQuota.
"""

from kcr.apiserver.kinds.core.generic import GenericStrategy
from kcr.apiserver.kinds.core.names import qualified_name
from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.field_errors import IMMUTABLE, NON_NEGATIVE, invalid
from kcr.apiserver.kinds.strategy import FieldError, Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape
from kcr.apiserver.schema.quantities import amount, whole

_OBJECTS = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
    "services.loadbalancers", "services.nodeports",
)  # fmt: skip
_RESOURCES = tuple(
    f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
)
_STANDARD = frozenset((*_OBJECTS, *_RESOURCES, "requests.storage"))
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_NOT_STANDARD = "must be a standard resource for quotas"


class ResourceQuotaStrategy(Strategy):
    """Quotas say what a namespace may hold; their status says what it holds."""

    def default(self, obj: Manifest) -> None:
        """Bring a quota into shape.

        Raises:
            UndecodableError: It is no quota.
        """
        receive(kind_shape("v1", "ResourceQuota"), obj)
        obj.setdefault("spec", {})
        obj.setdefault("status", {})

    def prepare_create(self, obj: Manifest) -> None:
        """Start with nothing known to be used."""
        obj["status"] = {}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a quota."""
        return _check("spec.hard", obj["spec"].get("hard") or {})

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change; the scopes stay."""
        scopes = [spec.get("scopes") or [] for spec in (new["spec"], old["spec"])]
        changed = [] if sorted(scopes[0]) == sorted(scopes[1]) else [invalid("spec.scopes", scopes[0], IMMUTABLE)]
        return self.validate(new) + changed

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the faults of a change of the status."""
        status = new["status"]
        return _check("status.hard", status.get("hard") or {}) + _check("status.used", status.get("used") or {})


def _check(field: str, amounts: Manifest) -> list[FieldError]:
    faults: list[FieldError] = []
    for name, value in sorted(amounts.items()):
        path = f"{field}[{name}]"
        reasons = qualified_name(name)
        if not reasons and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
            reasons = (_NOT_STANDARD,)
        faults += [invalid(path, name, reason) for reason in reasons]
        if amount(value) < 0:
            faults.append(invalid(path, value, NON_NEGATIVE))
        if not whole(value) and (name in _OBJECTS or name.startswith("count/")):
            faults.append(invalid(path, value, "must be an integer"))
    return faults


class LimitRangeStrategy(GenericStrategy):
    """Limit ranges are kept as they come, and said to be no more than that."""

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, to the one who makes a limit range, that it has no effect here."""
        return [] if old is not None else ["limit ranges are stored and not applied by this server"]
