"""Every change of Jobs and pods as the storage makes it, signed, and what it leaves known of each."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from kcr.api import codec
from kcr.api.batch import Job, UncountedTerminatedPods, is_finished
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.api.pods import completion_index, is_active, is_terminal, is_terminating
from kcr.api.selectors import matches
from kcr.controllers.job.decisions.pods import is_tracked
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import START, VirtualClock
from tests.chaos.authors import AUTHOR, CONTROLLER, LATE
from tests.chaos.tally import broken, checked

_NOTHING = UncountedTerminatedPods()
# Until what a Job leaves over is gone.
_LEFTOVERS_SECONDS = 120


class PodTrail:
    """What is known of one pod.

    Attributes:
        pod: Its last state.
        owner: UID of the Job that controls it, or empty.
        here: Whether it is still there.
        moved: Whether another client has made it, or touched its owner, labels or index.
        disturbed: Whether that, or another client has removed its finalizer.
        spared: Whether the controller has let it go before it ended, and without counting it: there were too many.
        ended: The state in which it ended, or None.
        finals: That state and those that it has had since.
        told_to_go_by: Who asked first for it to go.
        told_early: Whether it had not ended by then.
    """

    def __init__(self, pod: Pod, author: str) -> None:
        self.pod = pod
        self.here = True
        # One that the controller has made without waiting for the answer is a gift as well.
        self.moved = self.disturbed = author != CONTROLLER
        self.spared = False
        self.ended: Pod | None = None
        self.finals: list[Pod] = []
        self.told_to_go_by: str | None = None
        self.told_early = False
        self.index = completion_index(pod)

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def owner(self) -> str:
        return owner_of(self.pod)

    @property
    def is_active(self) -> bool:
        return self.here and is_active(self.pod)

    @property
    def is_terminating(self) -> bool:
        return self.here and is_terminating(self.pod)

    @property
    def is_tracked(self) -> bool:
        return self.here and is_tracked(self.pod)


class JobTrail:
    """What is known of one Job, by its UID.

    Attributes:
        job: Its last state.
        here: Whether it is still there.
        specs: All it ever had.
        listed: How often each pod was listed as succeeded and as failed.
        pods: Those it controls or has controlled.
        shrunk: Whether it ever had fewer indexes than before.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.here = True
        self.specs = [job.spec]
        self.listed: dict[str, Counter[str]] = {"succeeded": Counter(), "failed": Counter()}
        self.pods: dict[str, PodTrail] = {}
        self.shrunk = False

    def present(self) -> list[PodTrail]:
        """The pods that it controls now."""
        return [trail for trail in self.pods.values() if trail.here and trail.owner == self.job.metadata.uid]

    def most(self, field: str, default: int = 0) -> int:
        """The highest value that a field of the spec ever had."""
        return max((value for spec in self.specs if (value := getattr(spec, field)) is not None), default=default)

    def least(self, field: str, default: int = 0) -> int:
        """The lowest value that a field of the spec ever had."""
        return min((value for spec in self.specs if (value := getattr(spec, field)) is not None), default=default)

    @property
    def ever_wanted_fewer(self) -> bool:
        """Whether it was ever suspended, or had its parallelism reduced."""
        wanted = [0 if spec.suspend else spec.parallelism or 0 for spec in self.specs]
        return any(after < before for before, after in pairwise(wanted))

    @property
    def always_replaces_only_failed(self) -> bool:
        return all(spec.pod_replacement_policy == "Failed" for spec in self.specs)


class JobStep:
    """One change of a Job; `old` is None when it is made, `new` when it goes."""

    def __init__(self, trail: JobTrail, old: Job | None, new: Job | None) -> None:
        self.trail, self.old, self.new = trail, old, new
        self.author = AUTHOR.get()

    def fresh(self, kind: str) -> set[str]:
        """The pods that this change enters in a list."""
        return set(uids(self.new, kind)) - set(uids(self.old, kind))


class PodStep:
    """One change of a pod; `old` is None when it is made, `new` when it goes."""

    def __init__(self, trail: PodTrail, old: Pod | None, new: Pod | None, history: "History") -> None:
        self.trail, self.old, self.new = trail, old, new
        self.author = AUTHOR.get()
        pod = old or new
        assert pod is not None
        # The Job that controlled it before, or controls it from the beginning.
        self.job = history.jobs.get(owner_of(pod))


JobLaw = Callable[[JobStep], Iterator[str]]
PodLaw = Callable[[PodStep], Iterator[str]]


class History:
    """Follows the storage from the first change on.

    Attributes:
        jobs: By UID, oldest first.
        pods: By UID, oldest first.
        wrongs: What must never be.
    """

    def __init__(self, cluster: EmbeddedCluster, job_laws: tuple[JobLaw, ...], pod_laws: tuple[PodLaw, ...]) -> None:
        self.jobs: dict[str, JobTrail] = {}
        self.pods: dict[str, PodTrail] = {}
        self.wrongs: list[str] = []
        # Called before each change, when the state is what it has been since the one before; and after it.
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None
        # Called with each wrong when it is noted.
        self.on_wrong: Callable[[str], None] = lambda _: None
        self._job_laws, self._pod_laws = job_laws, pod_laws
        # Whether a change is being judged: its write is answered afterwards.
        self._judges = False
        follow = {"Job": partial(self._follow, self._follow_job), "Pod": partial(self._follow, self._follow_pod)}
        for kind in KINDS:
            if kind.type.kind in follow and kind.type.group in ("", "batch"):
                cluster.storage.cache(kind).subscribers[follow[kind.type.kind]] = None

    @property
    def current(self) -> JobTrail | None:
        """The Job made last."""
        return next(reversed(self.jobs.values()), None)

    async def see_the_end(self, clock: VirtualClock, seconds: float) -> None:
        """Wait until the Job has ended, note it if it does not, and let what is left over go.

        Args:
            clock: The clock of the cluster.
            seconds: How long the Job may take.
        """
        checked("jobs_end")
        try:
            await clock.run_until(lambda: self.current is not None and is_finished(self.current.job), seconds=seconds)
        except AssertionError:
            self.note(f"jobs_end: {self.current and self.current.job.status}")
        await clock.advance(_LEFTOVERS_SECONDS)

    def note(self, wrong: str) -> None:
        """Note what is wrong, once."""
        moment = asyncio.get_running_loop().time()
        if not any(known.partition(": ")[2] == wrong for known in self.wrongs):
            self.wrongs.append(f"{moment:.3f} s: {wrong}")
            self.on_wrong(self.wrongs[-1])
            broken(self.wrongs[-1], amid_write=self._judges)

    def _follow(self, follow: Callable[[Change], None], change: Change) -> None:
        self._judges = True
        self.before()
        follow(change)
        self.after()
        self._judges = False

    def _follow_job(self, change: Change) -> None:
        old = codec.decode(Job, change.old.data) if change.old else None
        new = codec.decode(Job, change.new.data) if change.new else None
        job = new or old
        assert job is not None
        trail = self.jobs.setdefault(job.metadata.uid, JobTrail(job))
        step = JobStep(trail, old, new)
        for law in self._job_laws:
            checked(law.__name__)
            for wrong in law(step):
                self.note(f"{law.__name__}: {wrong}")
        for kind, counter in trail.listed.items():
            counter.update(step.fresh(kind))
        trail.job, trail.here = job, new is not None
        if job.spec != trail.specs[-1]:
            before, now = trail.specs[-1].completions or 0, job.spec.completions or 0
            trail.shrunk |= now < before
            trail.specs.append(job.spec)

    def _follow_pod(self, change: Change) -> None:
        old = codec.decode(Pod, change.old.data) if change.old else None
        new = codec.decode(Pod, change.new.data) if change.new else None
        pod = new or old
        assert pod is not None
        trail = self.pods.setdefault(pod.metadata.uid, PodTrail(pod, AUTHOR.get()))
        step = PodStep(trail, old, new, self)
        for law in self._pod_laws:
            checked(law.__name__)
            for wrong in law(step):
                self.note(f"{law.__name__}: pod {pod.metadata.name} {pod.status.phase}: {wrong}")
        self._update(trail, old, new)
        if owner := self.jobs.get(trail.owner):
            owner.pods[trail.uid] = trail

    def _update(self, trail: PodTrail, old: Pod | None, new: Pod | None) -> None:
        author = AUTHOR.get()
        is_ours = author in (CONTROLLER, LATE)
        trail.here = new is not None
        if new is None:
            trail.disturbed |= not is_ours and is_tracked(trail.pod)
            return
        trail.pod, trail.index = new, completion_index(new)
        if old is not None:
            trail.moved |= not is_ours and _belongings(old) != _belongings(new)
            trail.disturbed |= trail.moved or (not is_ours and is_tracked(old) != is_tracked(new))
            trail.spared |= is_ours and is_tracked(old) and not is_tracked(new) and self._is_given_up(trail, old)
        if new.metadata.deletion_timestamp is not None and trail.told_to_go_by is None:
            trail.told_to_go_by, trail.told_early = author, not is_terminal(new)
        if is_terminal(new):
            trail.ended = trail.ended or new
            trail.finals.append(new)

    def _is_given_up(self, trail: PodTrail, pod: Pod) -> bool:
        """Return whether a pod that loses its finalizer is not counted, though a deletion may not be seen yet."""
        owner = self.jobs.get(trail.owner)
        is_listed = owner is not None and any(trail.uid in ever for ever in owner.listed.values())
        return is_active(pod) or not (is_terminal(pod) or is_listed)


def _belongings(pod: Pod) -> tuple[object, ...]:
    return owner_of(pod), dict(pod.metadata.labels), completion_index(pod)


def owner_of(pod: Pod) -> str:
    """The UID of the Job that controls a pod, or nothing."""
    owner = controller_of(pod.metadata)
    return owner.uid if owner is not None and owner.kind == "Job" else ""


def fits(job: Job, pod: Pod) -> bool:
    return job.spec.selector is not None and matches(job.spec.selector, pod.metadata.labels)


def uids(job: Job | None, kind: str) -> tuple[str, ...]:
    """The pods that a Job's status lists as succeeded or failed."""
    found: tuple[str, ...] = getattr((job and job.status.uncounted_terminated_pods) or _NOTHING, kind)
    return found


def now() -> datetime:
    """The present moment, on the clock of the tests."""
    return (START + timedelta(seconds=asyncio.get_running_loop().time())).astimezone(UTC)
