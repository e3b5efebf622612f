from msgspec.structs import replace

from kcr.controllers.cronjob.decisions.plan import Outcome, Start
from kcr.controllers.cronjob.decisions.status import Run
from kcr.controllers.cronjob.memory import Memory
from kcr.errors import TransportError
from tests.kit.cronjob_builders import cron, job, judged
from tests.kit.cronjob_harness import at


def test_deleted_job_is_left_out_until_nobody_shows_it() -> None:
    state = Memory().of(cron())
    state.deleted |= {"u-a", "u-b"}
    assert state.left(cron(), [job("a"), job("c")]) == (job("c"),)
    assert state.deleted == {"u-a"}
    assert state.left(cron(active=[job("a")]), [job("c")]) == (job("c"),)
    assert state.deleted == {"u-a"}
    assert state.left(cron(), [job("c")]) == (job("c"),)
    assert state.deleted == set()


def test_cronjob_of_the_same_name_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).deleted.add("u-a")
    assert memory.of(cron()).deleted == {"u-a"}
    anew = replace(cron(), metadata=replace(cron().metadata, uid="another"))
    assert memory.of(anew).deleted == set()


def test_forgotten_cronjob_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).is_news = True
    memory.forget(cron().key)
    memory.forget(cron().key)
    assert not memory.of(cron()).is_news


def test_outcome_of_a_start_is_remembered_until_it_is_on_record() -> None:
    plan = judged(cron(), at("10:00:00.1"))
    assert isinstance(plan.work, Start)
    state = Memory().of(cron())
    state.note(plan.work, Outcome(is_unconfirmed=True, error=TransportError("cut")))
    assert (state.unconfirmed, state.started) == (plan.work, None)
    state.note(plan.work, Outcome(deleted=frozenset({"u-a"}), job=job("hello-29671800"), is_new=True))
    assert (state.unconfirmed, state.started, state.is_news) == (None, Run(at("10:00:00"), job("hello-29671800")), True)
    assert state.deleted == {"u-a"}
