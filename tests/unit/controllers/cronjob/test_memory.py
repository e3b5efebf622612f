from msgspec.structs import replace

from kcr.controllers.cronjob.memory import Memory
from tests.kit.cronjob_builders import cron


def test_cronjob_of_the_same_name_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).is_news = True
    assert memory.of(cron()).is_news
    assert not memory.of(replace(cron(), metadata=replace(cron().metadata, uid="another"))).is_news


def test_forgotten_cronjob_starts_clean() -> None:
    memory = Memory()
    memory.of(cron()).is_news = True
    memory.forget(cron().key)
    memory.forget(cron().key)
    assert not memory.of(cron()).is_news
