import pytest
from msgspec.structs import replace

from kcr.api.selectors import LabelSelector, Requirement
from kcr.controllers.job.decisions.pods import selects
from kcr.errors import KcrError
from tests.kit.builders import job, pod

APP = LabelSelector(match_labels={"app": "pi"})


def test_pods_whose_labels_fit_are_selected() -> None:
    # job-controller §6.
    assert selects(job(selector=APP), pod())
    assert not selects(job(selector=LabelSelector(match_labels={"app": "e"})), pod())


def test_pods_elsewhere_are_not_selected() -> None:
    one = pod()
    assert not selects(job(selector=APP), replace(one, metadata=replace(one.metadata, namespace="elsewhere")))


def test_job_without_selector_selects_nothing() -> None:
    assert not selects(job(), pod())


def test_malformed_selector_is_an_error_that_names_the_job() -> None:
    # job-controller §6, step 1.
    bad = LabelSelector(match_expressions=(Requirement(key="app", operator="Like"),))
    with pytest.raises(KcrError, match="job default/pi: couldn't convert Job selector: 'Like' is not a valid"):
        selects(job(selector=bad), pod())
