from msgspec.structs import replace

from controllers.cronjob.memory import Memory
from tests.unit.controllers.cronjob.builders import cron, job


def test_deleted_job_is_left_out_until_nobody_shows_it() -> None:
    mine = Memory().of(cron())
    mine.deleted |= {"u-a", "u-b"}
    assert mine.left(cron(), [job("a"), job("c")]) == (job("c"),)
    assert mine.deleted == {"u-a"}
    assert mine.left(cron(active=[job("a")]), [job("c")]) == (job("c"),)
    assert mine.deleted == {"u-a"}
    assert mine.left(cron(), [job("c")]) == (job("c"),)
    assert mine.deleted == set()


def test_cronjob_of_the_same_name_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).deleted.add("u-a")
    assert memory.of(cron()).deleted == {"u-a"}
    anew = replace(cron(), metadata=replace(cron().metadata, uid="another"))
    assert memory.of(anew).deleted == set()


def test_forgotten_cronjob_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).doubtful = "hello-1"
    memory.forget(cron().key)
    memory.forget(cron().key)
    assert memory.of(cron()).doubtful == ""
