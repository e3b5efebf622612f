"""Feature gates: alpha features of Kubernetes that are switched on by name."""

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
