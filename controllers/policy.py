"""Policy of the built-in controllers: alpha features, and replacing the cluster's own controllers."""

from kcr.errors import ConfigError

# The server knows workloads and groups of pods; and the Job controller makes them.
GENERIC_WORKLOAD, WORKLOAD_WITH_JOB = "GenericWorkload", "WorkloadWithJob"
# The server limits lists and watches by shards.
SHARDED_LIST_AND_WATCH = "ShardedListAndWatch"
# Each gate, and the one it needs.
_GATES = {GENERIC_WORKLOAD: "", WORKLOAD_WITH_JOB: GENERIC_WORKLOAD, SHARDED_LIST_AND_WATCH: ""}


def read_gates(text: str) -> frozenset[str]:
    """Return the names of the features that are on.

    They are given as pairs, such as `GenericWorkload=true,WorkloadWithJob=true`; all others are off.

    Raises:
        ValueError: A pair is malformed, there is no such gate, or one is on without the one it needs.

    Source: kubernetes/staging/src/k8s.io/component-base/featuregate/feature_gate.go.
    """
    on: set[str] = set()
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name not in _GATES:
            raise ValueError(f"there is no feature gate {name!r}; known are {', '.join(_GATES)}")
        if value.lower() not in ("true", "false"):
            raise ValueError(f"feature gate {pair!r}: say {name}=true or {name}=false")
        (on.add if value.lower() == "true" else on.discard)(name)
    for name in on:
        if _GATES[name] and _GATES[name] not in on:
            raise ValueError(f"feature gate {name} needs {_GATES[name]}=true as well")
    return frozenset(on)


def require_take_over(name: str, *, instead_of: str, take_over: bool) -> None:
    """Refuse a controller beside the cluster's own, when no field says which of the two an object belongs to.

    Args:
        name: The controller.
        instead_of: The name of kube-controller-manager's own controller.
        take_over: The user's word that its own does not run.

    Raises:
        ConfigError: The user has not said so.
    """
    if not take_over:
        raise ConfigError(
            f"controller {name!r} cannot share a cluster with kube-controller-manager's own: "
            f"start that with --controllers=*,-{instead_of}, and this one with take_over (kcr run --take-over)"
        )
