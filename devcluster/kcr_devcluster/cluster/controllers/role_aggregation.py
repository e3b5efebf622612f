"""ClusterRole aggregation controller: writes into ClusterRoles the rules of those that their `aggregationRule` selects.

So a user's ClusterRole with the label `rbac.authorization.k8s.io/aggregate-to-edit: "true"` adds its rules to `edit`.

Source: kubernetes/pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go.
"""

from collections.abc import Iterable

from kcr.api.full.rbac_v1 import ClusterRole, PolicyRule
from kcr.api.meta import Key
from kcr.api.selectors import matches
from kcr.controller import Result, watch
from kcr.manager import Manager

# The field manager of the rules; upstream's name.
_MANAGER = "clusterrole-aggregation-controller"


def aggregated_rules(role: ClusterRole, others: Iterable[ClusterRole]) -> tuple[PolicyRule, ...]:
    """Return the rules that a role aggregates, each once: selector by selector, by the names of the roles.

    Args:
        role: A role with an aggregation rule.
        others: All roles; itself is left out.
    """
    sources = sorted((other for other in others if other.key != role.key), key=lambda other: other.metadata.name)
    found: list[PolicyRule] = []
    for selector in role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else ():
        for source in sources:
            if matches(selector, source.metadata.labels):
                found += [rule for rule in source.rules if rule not in found]
    return tuple(found)


class RoleAggregator:
    """Reconciles one ClusterRole that aggregates others; level-triggered and idempotent."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._roles = manager.store(ClusterRole)

    def keys(self, _: ClusterRole) -> list[Key]:
        """Return the keys of all roles that aggregate others: which of them a change concerns, few labels say."""
        return [role.key for role in self._roles.snapshot() if role.aggregation_rule is not None]

    async def reconcile(self, key: Key) -> Result:
        """Write the rules of a role, unless they are right already."""
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None:
            return Result()
        rules = aggregated_rules(role, self._roles.snapshot())
        if rules != role.rules:
            applied = {"metadata": {"name": role.metadata.name}, **({"rules": rules} if rules else {})}
            await self._client.apply_manifest(ClusterRole, applied, field_owner=_MANAGER, force=True)
        return Result()


def setup(manager: Manager) -> None:
    """Add the controller."""
    aggregator = RoleAggregator(manager)
    manager.add_controller(_MANAGER, aggregator, watches=[watch(ClusterRole, map_to=aggregator.keys)])
