"""Revisions of a Deployment: each ReplicaSet of it has a pod template, a hash of that template, and a number.

Annotations of ReplicaSets carry the number, the numbers it had before, and the size of the Deployment they were made
for. kubectl's `rollout history` and `rollout undo` read them.

Source: kubernetes/pkg/controller/deployment/util/deployment_util.go and sync.go, getNewReplicaSet, cleanupDeployment.
"""

import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kcr.api.apps import Deployment, ReplicaSet, ReplicaSetSpec
from kcr.api.durations import parse_int
from kcr.api.meta import ObjectMeta, controller_reference
from kcr.api.selectors import LabelSelector
from kcr_devcluster.cluster.workloads.replicasets import replicas_of

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"

# Annotations of a Deployment that its ReplicaSets do not take over.
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)  # fmt: skip
_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_HISTORY = 2000
_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)

_sorted = msgspec.json.Encoder(order="deterministic")


class History(NamedTuple):
    """The ReplicaSets of a Deployment.

    Attributes:
        new: The one with the present pod template; None when there is none.
        old: The others, the oldest first.
    """

    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """All of them, the new one last."""
        return self.old if self.new is None else (*self.old, self.new)

    def with_changed(self, changed: ReplicaSet) -> "History":
        """Return the history with a ReplicaSet as it is now."""
        uid = changed.metadata.uid
        if self.new is not None and self.new.metadata.uid == uid:
            return self._replace(new=changed)
        return self._replace(old=tuple(changed if one.metadata.uid == uid else one for one in self.old))


def history_of(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> History:
    """Return the ReplicaSets of a Deployment; of several with the present template, the oldest one is the new one."""
    by_age = sorted(replica_sets, key=_age)
    wanted = _comparable(deployment.spec.template)
    new = next((one for one in by_age if _comparable(one.spec.template) == wanted), None)
    return History(new, tuple(one for one in by_age if one is not new))


def _age(replica_set: ReplicaSet) -> tuple[datetime, str]:
    metadata = replica_set.metadata
    return metadata.creation_timestamp or _BEFORE_ALL, metadata.name


def _comparable(template: msgspec.Raw) -> object:
    """Return a template without the hash label and without null or empty values, as it is compared and hashed."""
    decoded = msgspec.json.decode(template)
    labels = (decoded.get("metadata") or {}).get("labels") or {}
    labels.pop(HASH_LABEL, None)
    return _without_nothing(decoded)


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_nothing(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in (None, {}, [])}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def same_template(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    """Return whether two pod templates are equal but for the hash label."""
    return _comparable(one) == _comparable(other)


def template_hash(template: msgspec.Raw, collisions: int) -> str:
    """Return a short text, valid in names and labels, that differs with the template.

    It is another function than upstream's, which hashes Go's print of the object: only that it is stable matters.

    Args:
        template: The pod template.
        collisions: How often the name made with the hash was taken; another number gives another hash.
    """
    number = zlib.crc32(_sorted.encode(_comparable(template)) + str(collisions or "").encode())
    return "".join(_HASH_LETTERS[ord(digit) % len(_HASH_LETTERS)] for digit in str(number))


def revision_of(obj: Deployment | ReplicaSet) -> int:
    """Return the revision in the annotations; 0 when there is none."""
    return _number(obj.metadata.annotations.get(REVISION))


def _number(text: str | None) -> int:
    return max(0, parse_int(text or "") or 0)


def annotated_number(replica_set: ReplicaSet, name: str) -> int | None:
    """Return the number in an annotation; None when it is absent or no number."""
    text = replica_set.metadata.annotations.get(name, "")
    return parse_int(text, 32) if text.isdecimal() else None


def new_replica_set(deployment: Deployment, history: History) -> ReplicaSet:
    """Return the ReplicaSet of the present template, without a size, to be created.

    Args:
        deployment: Becomes its controller.
        history: The ReplicaSets that there are.
    """
    suffix = template_hash(deployment.spec.template, deployment.status.collision_count or 0)
    template = msgspec.json.decode(deployment.spec.template)
    metadata = template.setdefault("metadata", {})
    labels = metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: suffix}
    selector = deployment.spec.selector or LabelSelector()
    made = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{suffix}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            owner_references=(controller_reference(deployment),),
        ),
        spec=ReplicaSetSpec(
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=replace(selector, match_labels={**selector.match_labels, HASH_LABEL: suffix}),
            template=msgspec.Raw(msgspec.json.encode(template)),
        ),
    )
    return with_revision(made, deployment, history)


def with_revision(replica_set: ReplicaSet, deployment: Deployment, history: History) -> ReplicaSet:
    """Return the new ReplicaSet with the Deployment's annotations, minReadySeconds, and the next revision.

    One that had a revision before, and is rolled back to, keeps the old number in its history.
    """
    present = replica_set.metadata.annotations
    copied = {name: text for name, text in deployment.metadata.annotations.items() if name not in _NOT_COPIED}
    annotations = {**present, **copied}
    following = max(map(revision_of, history.old), default=0) + 1
    if _number(present.get(REVISION)) < following:
        annotations[REVISION] = str(following)
        if before := present.get(REVISION):
            earlier = present.get(REVISION_HISTORY)
            annotations[REVISION_HISTORY] = f"{earlier},{before}"[-_LONGEST_HISTORY:] if earlier else before
    spec = replica_set.spec
    if spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        spec = replace(spec, min_ready_seconds=deployment.spec.min_ready_seconds)
    return _annotated(replace(replica_set, spec=spec), annotations)


def with_size(replica_set: ReplicaSet, replicas: int, desired: int, most: int) -> ReplicaSet:
    """Return a ReplicaSet of another size, and the size of the Deployment that it was made for.

    Args:
        replica_set: The ReplicaSet.
        replicas: How many pods it is to have.
        desired: How many the Deployment is to have.
        most: How many it may have during a rolling update.
    """
    annotations = {**replica_set.metadata.annotations, DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(most)}
    return _annotated(replace(replica_set, spec=replace(replica_set.spec, replicas=replicas)), annotations)


def _annotated(replica_set: ReplicaSet, annotations: Mapping[str, str]) -> ReplicaSet:
    return replace(replica_set, metadata=replace(replica_set.metadata, annotations=annotations))


def surplus_history(deployment: Deployment, history: History) -> tuple[ReplicaSet, ...]:
    """Return the old ReplicaSets beyond `revisionHistoryLimit`, the lowest revisions first, that have no pods left."""
    limit = deployment.spec.revision_history_limit
    alive = [one for one in history.old if one.metadata.deletion_timestamp is None]
    if limit is None or len(alive) <= limit:
        return ()
    candidates = sorted(alive, key=revision_of)[: len(alive) - limit]
    return tuple(one for one in candidates if _is_idle(one))


def _is_idle(replica_set: ReplicaSet) -> bool:
    observed = (replica_set.metadata.generation or 0) <= replica_set.status.observed_generation
    return observed and not replica_set.status.replicas and not replicas_of(replica_set)
