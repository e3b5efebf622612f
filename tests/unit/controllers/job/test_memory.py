from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kcr.api.batch import Job
from kcr.controller import Batching, OwnWrites
from kcr.controllers.job.fleet import Fleet
from kcr.controllers.job.memory import Memory
from kcr.workqueue import WorkQueue
from tests.kit.builders import job


def memory() -> Memory:
    return Memory(OwnWrites(), Batching(WorkQueue(), 1.0), Fleet(CollectorRegistry(), 1))


def other(uid: str) -> Job:
    one = job()
    return replace(one, metadata=replace(one.metadata, uid=uid))


def test_job_of_the_same_name_starts_with_an_empty_memory() -> None:
    # job-controller §40, row 152.
    own_writes = OwnWrites()
    remembered = Memory(own_writes, Batching(WorkQueue(), 1.0), Fleet(CollectorRegistry(), 1))
    state = remembered.of(other("a"))
    own_writes.of(other("a")).unconfirmed_status = True
    assert remembered.of(other("a")) is state
    assert own_writes.of(other("a")).unconfirmed_status
    assert remembered.of(other("b")) is not state
    assert not own_writes.of(other("b")).unconfirmed_status
    own_writes.of(other("b")).unconfirmed_status = True
    remembered.forget(job().key)
    assert not own_writes.of(other("b")).unconfirmed_status


def test_new_leader_lists_pods_until_they_reach_its_version() -> None:
    state = Memory(OwnWrites(leading_since=lambda: 50), Batching(WorkQueue(), 1.0), Fleet(CollectorRegistry(), 1)).of(
        job()
    )
    assert state.is_ahead(job(), 49)
    assert not state.is_ahead(job(), 50)


def test_job_forgotten_during_its_pass_leaves_nothing() -> None:
    # job-controller §40, rule 2: what the pass notes after the Job went is dropped when it ends.
    own_writes = OwnWrites()
    remembered = Memory(own_writes, Batching(WorkQueue(), 1.0), Fleet(CollectorRegistry(), 1))
    state = remembered.of(other("a"))
    remembered.forget(job().key)
    own_writes.of(other("a")).unconfirmed_status = True
    remembered.end_pass(state, job().key)
    assert not own_writes.of(other("a")).unconfirmed_status


def test_pods_counted_by_somebody_else_are_not_taken_from_an_older_store() -> None:
    state, one = memory().of(job()), job()
    counted = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    assert state.is_ahead(counted, 19)
    assert not state.is_ahead(counted, 20)


def test_own_status_is_no_news_to_the_store() -> None:
    state, one = memory().of(job()), job()
    counted = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    state.wrote(counted)
    assert not state.is_ahead(counted, 19)


def test_what_was_counted_ahead_of_the_store_is_not_taken_from_it_again() -> None:
    state, one = memory().of(job()), job()
    foreign = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    own = replace(one, status=replace(one.status, failed=2), metadata=replace(one.metadata, resource_version="30"))
    assert state.is_ahead(foreign, 19)
    state.wrote(own)
    assert state.is_ahead(own, 25)
    assert not state.is_ahead(own, 30)
