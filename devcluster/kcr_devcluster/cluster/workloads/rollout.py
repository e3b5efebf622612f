"""How a Deployment's ReplicaSets change their sizes: arithmetic on values.

Every function returns resizes to make now. Their effect is seen in the statuses of the ReplicaSets, and the next
reconcile takes the next step.

Source: kubernetes/pkg/controller/deployment, rolling.go, recreate.go, sync.go (scale), util/deployment_util.go.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.durations import parse_int
from kcr.errors import KcrError
from kcr_devcluster.cluster.workloads.replicasets import replicas_of
from kcr_devcluster.cluster.workloads.revisions import DESIRED_REPLICAS, MAX_REPLICAS, History, annotated_number


class Resize(NamedTuple):
    """A new size of one ReplicaSet."""

    replica_set: ReplicaSet
    replicas: int


def desired(deployment: Deployment) -> int:
    """Return how many pods a Deployment is to have; one where it does not say."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def is_recreate(deployment: Deployment) -> bool:
    """Return whether all old pods are deleted before new ones are created."""
    return deployment.spec.strategy.type == "Recreate"


def max_surge(deployment: Deployment) -> int:
    """Return how many pods more than desired there may be; a percentage is rounded up."""
    return 0 if is_recreate(deployment) else _bounds(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """Return how many pods of the desired ones may be unavailable; a percentage is rounded down.

    One may be when neither this nor the surge allowed any pod, for nothing would move then.
    """
    if is_recreate(deployment) or not desired(deployment):
        return 0
    return min(_bounds(deployment)[1], desired(deployment))


def _bounds(deployment: Deployment) -> tuple[int, int]:
    update, count = deployment.spec.strategy.rolling_update, desired(deployment)
    surge = _amount(update.max_surge if update else None, count, round_up=True)
    unavailable = _amount(update.max_unavailable if update else None, count, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def _amount(given: int | str | None, count: int, *, round_up: bool) -> int:
    if not isinstance(given, str):
        return given or 0
    percents = parse_int(given.removesuffix("%"))
    if percents is None:
        raise KcrError(f"rollingUpdate: {given:.40} is out of range: write a share such as 25%")
    hundredths = percents * count
    return -(-hundredths // 100) if round_up else hundredths // 100


def total(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods ReplicaSets are to have together."""
    return sum(map(replicas_of, replica_sets))


def new_size(deployment: Deployment, history: History) -> int:
    """Return the size to which the new ReplicaSet is scaled up now, as far as the surge allows."""
    present = 0 if history.new is None else replicas_of(history.new)
    if is_recreate(deployment):
        return desired(deployment)
    room = desired(deployment) + max_surge(deployment) - total(history.all)
    return present if room <= 0 else present + min(room, desired(deployment) - present)


def resize_new(deployment: Deployment, history: History) -> tuple[Resize, ...]:
    """Return the resize of the new ReplicaSet, if it has another size than it may have now."""
    if history.new is None:
        return ()
    present, wanted = replicas_of(history.new), desired(deployment)
    size = wanted if present > wanted else new_size(deployment, history)
    return () if size == present else (Resize(history.new, size),)


def resize_old(deployment: Deployment, history: History) -> tuple[Resize, ...]:
    """Return by how much old ReplicaSets are scaled down now, without too few pods being available.

    Pods that are not available are deleted first, wherever they are; then available ones, of the oldest ReplicaSet
    first.
    """
    new, least = history.new, desired(deployment) - max_unavailable(deployment)
    unavailable_new = 0 if new is None else replicas_of(new) - new.status.available_replicas
    room = total(history.all) - least - unavailable_new
    if room <= 0 or not total(history.old):
        return ()
    sizes = [replicas_of(one) for one in history.old]
    for place, one in enumerate(history.old):
        unhealthy = max(sizes[place] - one.status.available_replicas, 0)
        gone = min(room, unhealthy)
        sizes[place] -= gone
        room -= gone
    spare = sum(one.status.available_replicas for one in history.all) - least
    for place in range(len(sizes)):
        gone = max(min(spare, sizes[place]), 0)
        sizes[place] -= gone
        spare -= gone
    return _changes(history.old, sizes)


def resize_all_to_zero(replica_sets: Iterable[ReplicaSet]) -> tuple[Resize, ...]:
    """Return the resizes that take all pods away."""
    return tuple(Resize(one, 0) for one in replica_sets if replicas_of(one))


def is_scaled(deployment: Deployment, history: History) -> bool:
    """Return whether the Deployment was scaled since its active ReplicaSets got their sizes."""
    return any(
        annotated_number(one, DESIRED_REPLICAS) not in (None, desired(deployment))
        for one in history.all
        if replicas_of(one)
    )


def resize_in_proportion(deployment: Deployment, history: History) -> tuple[Resize, ...]:
    """Return the resizes that bring the sizes to another number of desired pods, without moving the rollout on.

    One active ReplicaSet takes it all. Of several, each gets its share, and the largest also the remainder of rounding.
    """
    wanted, new = desired(deployment), history.new
    active = [one for one in history.all if replicas_of(one)]
    if len(active) <= 1:
        sole = active[0] if active else new or (history.old[-1] if history.old else None)
        # One that has the size already is annotated all the same; else it would always count as scaled.
        return () if sole is None else (Resize(sole, wanted),)
    if is_recreate(deployment) or (new is not None and _is_saturated(deployment, new)):
        return resize_all_to_zero(history.old)
    missing = (wanted + max_surge(deployment) if wanted else 0) - total(active)
    # Upstream, BySizeNewer and BySizeOlder: of two alike, the newer grows first, and the older shrinks first.
    ordered = sorted(active[::-1] if missing > 0 else active, key=replicas_of, reverse=True)
    sizes, left = [], missing
    for one in ordered:
        share = _share(deployment, one) if left else 0
        share = min(share, left) if missing > 0 else max(share, left)
        sizes.append(replicas_of(one) + share)
        left -= share
    sizes[0] = max(sizes[0] + left, 0)
    # Those whose size stays are annotated with the new one of the Deployment all the same.
    return tuple(map(Resize, ordered, sizes))


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    counts = (replicas_of(new), annotated_number(new, DESIRED_REPLICAS), new.status.available_replicas)
    return counts == (desired(deployment),) * 3


def _share(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """Return by how much a ReplicaSet grows, or shrinks, when all keep their parts of the whole."""
    size = replicas_of(replica_set)
    if not desired(deployment):
        return -size
    base = annotated_number(replica_set, MAX_REPLICAS) or deployment.status.replicas
    most = desired(deployment) + max_surge(deployment)
    return round_half_up(size * most, base) - size if base else 0


def round_half_up(numerator: int, denominator: int) -> int:
    """Return the nearest whole number of a quotient that is not negative, the upper one of two."""
    return (2 * numerator + denominator) // (2 * denominator)


def _changes(replica_sets: Sequence[ReplicaSet], sizes: Sequence[int]) -> tuple[Resize, ...]:
    return tuple(Resize(one, size) for one, size in zip(replica_sets, sizes, strict=True) if replicas_of(one) != size)
