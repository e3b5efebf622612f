import pytest
from msgspec.structs import replace

from kcr.api.batch import JobStatus, finished_type, is_succeeded
from kcr.api.meta import Condition, ObjectMeta, is_controlled_by
from kcr.controllers.cronjob.decisions.jobs import controller_names
from tests.kit.cronjob_builders import cron, job


def test_job_is_found_by_the_name_of_its_controller() -> None:
    # Section 4: neither the UID nor the kind counts.
    other = replace(cron(), metadata=replace(cron().metadata, uid="another"))
    assert tuple(controller_names(job())) == tuple(controller_names(job(owner=other))) == ("default/hello",)


def test_job_without_a_controller_is_not_found() -> None:
    owner = replace(job().metadata.owner_references[0], controller=None)
    assert tuple(controller_names(replace(job(), metadata=ObjectMeta(name="a", owner_references=(owner,))))) == ()


def test_own_job_names_this_very_cronjob() -> None:
    other = replace(cron(), metadata=replace(cron().metadata, uid="another"))
    assert is_controlled_by(job(), cron())
    assert not is_controlled_by(job(owner=other), cron())


@pytest.mark.parametrize(
    ("conditions", "end", "succeeded"),
    [
        pytest.param([], "", False, id="none"),
        pytest.param([("Complete", "False"), ("Failed", "True")], "Failed", False, id="only-those-that-hold"),
        pytest.param([("Failed", "True"), ("Complete", "True")], "Failed", True, id="the-first-one"),
        pytest.param([("Suspended", "True")], "", False, id="suspended"),
    ],
)
def test_conditions_say_how_a_job_ended(conditions: list[tuple[str, str]], end: str, succeeded: bool) -> None:
    held = tuple(Condition(type=kind, status=status) for kind, status in conditions)
    ended = replace(job(), status=JobStatus(conditions=held))
    assert (finished_type(ended), is_succeeded(ended)) == (end, succeeded)
