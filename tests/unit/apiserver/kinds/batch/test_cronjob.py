from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from tests.kit import manifests
from tests.kit.invalid_manifests import mutated
from tests.kit.manifests import CRON_JOBS, cronjob

prepared = partial(manifests.prepared, strategy=CRON_JOBS)

FULL: Manifest = {
    **cronjob(
        job_spec={
            "completionMode": "Indexed",
            "completions": 5,
            "parallelism": 2,
            "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}]},
            "successPolicy": {"rules": [{"succeededIndexes": "0-2", "succeededCount": 1}]},
        },
        timeZone="Europe/Berlin",
        startingDeadlineSeconds=60,
        suspend=False,
        concurrencyPolicy="Forbid",
    ),
    "status": {"active": [{"name": "hello-1", "uid": "u"}], "lastScheduleTime": "2026-01-01T00:00:00Z"},
}


@given(st.data(), st.sampled_from(["spec", "status"]))
def test_any_cronjob_is_judged_and_none_breaks_the_server(data: st.DataObject, part: str) -> None:
    old = prepared(cronjob(schedule="TZ=UTC @daily"))
    try:
        new = mutated(data, FULL, part)
        CRON_JOBS.default(new)
        CRON_JOBS.validate(new)
        CRON_JOBS.warnings(new, None)
        CRON_JOBS.warnings(new, old)
        CRON_JOBS.validate_update(new, old)
        CRON_JOBS.validate_status(new, old)
    except UndecodableError as error:
        assert error.code == 400
