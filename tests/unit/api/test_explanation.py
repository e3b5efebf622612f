"""Explanations of one object as one: the most telling has the headline."""

from kcr.api.explanation import Code, Explanation, Step, merged, merged_with_own

SILENT = Explanation(
    Code.HEALTHY, "has existed for 5m", steps=(Step("x"),), reasons=("old",), remedies=("wait",), present="a"
)
DELETED = Explanation(Code.TERMINATING, "is being deleted", reasons=("held",), remedies=("let go",))
FAILS = Explanation(Code.RECONCILE_ERROR, "controller site fails", reasons=("dns",), remedies=("mend",))


def test_higher_rank_has_the_headline_and_the_other_is_a_reason() -> None:
    found = merged(DELETED, FAILS)
    assert (found.headline, found.code) == ("controller site fails", Code.RECONCILE_ERROR)
    assert found.reasons == ("dns", "it is being deleted", "held")
    assert found.remedies == ("mend", "let go")


def test_lower_rank_is_a_reason() -> None:
    found = merged(FAILS, DELETED)
    assert (found.headline, found.code) == ("controller site fails", Code.RECONCILE_ERROR)
    assert found.reasons == ("dns", "is being deleted", "held")
    assert found.remedies == ("mend", "let go")


def test_state_as_a_reason_is_a_sentence() -> None:
    ended = Explanation(Code.FINISHED, "Complete for 5m")
    assert merged(ended, FAILS).reasons == ("dns", "it is Complete for 5m")


def test_silence_adds_nothing_to_a_trouble() -> None:
    found = merged(SILENT, FAILS)
    assert (found.headline, found.present) == ("controller site fails", "a")
    assert (found.reasons, found.remedies, found.steps) == (("dns", "old"), ("mend",), ())


def test_equal_rank_keeps_the_first_headline() -> None:
    other = Explanation(Code.RECONCILE_ERROR, "controller dns fails")
    assert merged(FAILS, other).headline == "controller site fails"


def test_codes_rank_in_their_order() -> None:
    ranks = [code.rank for code in Code]
    assert ranks == sorted(set(ranks))
    assert Code.EVENT_LOOP_BLOCKED.rank > Code.RECONCILE_ERROR.rank > Code.WAITING.rank > Code.HEALTHY.rank


def test_controller_knows_its_own_work_best() -> None:
    own, other = Explanation(Code.WAITING, "waits 90s (backoff)"), Explanation(Code.WAITING, "waits 8s (backoff)")
    assert merged_with_own(own, other) is own
    for silent in (Code.HEALTHY, Code.NO_STATUS, Code.NO_CONTROLLER):
        assert merged_with_own(own, Explanation(silent, "has existed for 5m")) is own
    found = merged_with_own(own, Explanation(Code.CREATING, "creates 1 pod now"))
    assert (found.headline, found.reasons) == ("waits 90s (backoff)", ("from outside: creates 1 pod now",))


def test_api_server_knows_more_of_pods_and_other_controllers() -> None:
    own = Explanation(Code.RUNNING, "waits for 1 pod", reasons=("pod a is late",))
    pods = Explanation(Code.PODS_NOT_READY, "waits for its volumes", reasons=("pod a: FailedMount",))
    assert merged_with_own(own, pods) is pods
    several = Explanation(Code.CONCURRENT_CONTROLLERS, "several controllers create and delete its pods")
    assert merged_with_own(own, several) is several
    refused = Explanation(Code.REFUSED, "cannot create Jobs: a ResourceQuota is used up")
    assert merged_with_own(Explanation(Code.CREATING, "has been due for 30s"), refused) is refused


def test_trouble_from_outside_ranks_above_what_a_controller_waits_for() -> None:
    own = Explanation(Code.WAITING, "waits for its DNS entry", reasons=("the zone is locked",))
    pods = Explanation(Code.PODS_NOT_READY, "its deployment web has 1 pod that crashes", webhook="hook.example.dev")
    found = merged_with_own(own, pods)
    assert (found.code, found.headline, found.webhook) == (pods.code, pods.headline, pods.webhook)
    assert found.reasons == ("it waits for its DNS entry", "the zone is locked")
