from msgspec.structs import replace

from kcr.api.batch import Job
from kcr.controllers.job.memory import Bucket, Memory
from kcr.controllers.job.plan import Identity, Outcome
from tests.kit.builders import job


def other(uid: str) -> Job:
    one = job()
    return replace(one, metadata=replace(one.metadata, uid=uid))


def test_quiet_job_is_looked_at_at_once() -> None:
    bucket = Bucket(1.0)
    for _ in range(5):
        assert bucket.delay(100.0) == 0
        bucket.spend(100.0)
    assert bucket.delay(100.0) == 1.0
    assert bucket.delay(100.75) == 0.25
    assert bucket.delay(101.0) == 0


def test_bucket_never_holds_more_than_its_burst() -> None:
    bucket = Bucket(1.0)
    bucket.spend(0.0)
    for _ in range(5):
        assert bucket.delay(1000.0) == 0
        bucket.spend(1000.0)
    assert bucket.delay(1000.0) == 1.0


def test_period_zero_never_waits() -> None:
    bucket = Bucket(0.0)
    for _ in range(50):
        bucket.spend(1.0)
    assert bucket.delay(1.0) == 0


def test_job_of_the_same_name_starts_with_an_empty_memory() -> None:
    # job-controller §40, row 152.
    forgotten: list[Identity] = []
    memory = Memory(1.0, forgotten.append)
    state = memory.of(other("a"))
    state.finished = True
    assert memory.of(other("a")) is state
    assert not memory.of(other("b")).finished
    assert forgotten == [Identity(job().key, "a")]
    memory.forget(job().key)
    assert forgotten[-1] == Identity(job().key, "b")


def test_own_write_is_an_echo_exactly_once() -> None:
    state = Memory(1.0, lambda _: None).of(job())
    state.absorb(Outcome(versions=("17", "9")))
    assert state.is_own_version("17")
    assert not state.is_own_version("17")
    assert not state.is_own_version("18")


def test_job_forgotten_during_its_pass_leaves_nothing() -> None:
    # job-controller §40, rule 2: what the pass notes after the Job went is dropped when it ends.
    forgotten: list[Identity] = []
    memory = Memory(1.0, forgotten.append)
    with memory.in_use(memory.of(other("a")), job().key):
        memory.forget(job().key)
    assert forgotten == [Identity(job().key, "a")] * 2


def test_pods_counted_by_somebody_else_are_not_taken_from_an_older_store() -> None:
    state, one = Memory(1.0, lambda _: None).of(job()), job()
    counted = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    assert state.is_ahead(counted, 19)
    assert not state.is_ahead(counted, 20)


def test_own_status_is_no_news_to_the_store() -> None:
    state, one = Memory(1.0, lambda _: None).of(job()), job()
    counted = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    state.wrote(counted)
    assert not state.is_ahead(counted, 19)


def test_what_was_counted_ahead_of_the_store_is_not_taken_from_it_again() -> None:
    state, one = Memory(1.0, lambda _: None).of(job()), job()
    foreign = replace(one, status=replace(one.status, failed=1), metadata=replace(one.metadata, resource_version="20"))
    own = replace(one, status=replace(one.status, failed=2), metadata=replace(one.metadata, resource_version="30"))
    assert state.is_ahead(foreign, 19)
    state.wrote(own)
    assert state.is_ahead(own, 25)
    assert not state.is_ahead(own, 30)
