"""The next step for self-made certificates, by what is stored and trusted."""

from datetime import UTC, datetime, timedelta

import pytest

from kcr.serving.webhooks.rotation import (
    SETTLE,
    Certificate,
    Chain,
    Create,
    Draft,
    Forget,
    Issue,
    Observed,
    Publish,
    Rotate,
    Step,
    Wait,
    decide,
)

NOW = datetime(2026, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def certificate(name: str, age: float, life: float = 9) -> Certificate:
    """A certificate that has been valid for some days, and is for some days in all."""
    return Certificate(f"{name}\n".encode(), NOW - age * DAY, NOW + (life - age) * DAY)


CA, OLD, SERVING = certificate("ca", 1), certificate("old", 7), certificate("serving", 1)
DUE, EXPIRED = certificate("due", 6), certificate("expired", 9)
STEADY = Chain(CA, SERVING, is_current=True)
STAGED = Chain(CA, SERVING, is_current=False, previous=(OLD,))
BOTH = CA.pem + OLD.pem
NEW, YOUNG, LAST = certificate("new", 1 / 24), certificate("young", -0.1), certificate("last", 8.6)
EMPTY = Chain(NEW, None, is_current=False, previous=(OLD,))


@pytest.mark.parametrize(
    ("observed", "step"),
    [
        pytest.param(Observed(None, None, (), None), Draft(), id="nothing"),
        pytest.param(Observed(None, STEADY, (b"",), None), Create(), id="draft"),
        pytest.param(Observed(None, STEADY, (), NOW), Create(), id="draft-without-configurations"),
        pytest.param(Observed(None, EMPTY, (OLD.pem,), None), Create(), id="draft-beside-another"),
        pytest.param(Observed(None, Chain(YOUNG, None, False), (), None), Draft(), id="draft-not-yet-valid"),
        pytest.param(Observed(None, Chain(DUE, SERVING, True), (), None), Draft(), id="draft-too-old"),
        pytest.param(Observed(None, Chain(None, None, False), (), None), Draft(), id="draft-unusable"),
        pytest.param(Observed(STEADY, None, (CA.pem,), NOW), Wait(NOW + 5 * DAY), id="steady"),
        pytest.param(Observed(STEADY, None, (CA.pem, b""), None), Publish(CA.pem), id="bundle-removed"),
        pytest.param(Observed(STEADY, None, (b"other",), None), Publish(CA.pem), id="bundle-of-another"),
        pytest.param(Observed(Chain(DUE, SERVING, True), None, (), NOW), Rotate(), id="due"),
        pytest.param(Observed(Chain(None, SERVING, False), None, (), NOW), Rotate(), id="no-authority"),
        pytest.param(Observed(Chain(EXPIRED, SERVING, False), None, (), NOW), Rotate(), id="expired"),
        pytest.param(Observed(Chain(DUE, SERVING, False), None, (DUE.pem,), NOW), Wait(NOW + SETTLE), id="due-staged"),
        pytest.param(Observed(STAGED, None, (OLD.pem,), None), Publish(BOTH), id="staged"),
        pytest.param(Observed(STAGED, None, (BOTH,), NOW), Wait(NOW + SETTLE), id="published"),
        pytest.param(Observed(STAGED, None, (BOTH,), NOW - SETTLE), Issue(), id="settled"),
        pytest.param(Observed(Chain(CA, None, False), None, (CA.pem,), NOW), Issue(), id="no-certificate"),
        pytest.param(Observed(Chain(CA, EXPIRED, True), None, (CA.pem,), NOW), Issue(), id="certificate-expired"),
        pytest.param(Observed(Chain(CA, DUE, True), None, (CA.pem,), NOW), Issue(), id="certificate-due"),
        pytest.param(Observed(Chain(CA, DUE, True), None, (b"",), None), Issue(), id="due-and-bundle-removed"),
        pytest.param(Observed(Chain(CA, EXPIRED, True), None, (b"",), None), Issue(), id="expired-and-bundle-removed"),
        pytest.param(Observed(Chain(CA, YOUNG, True), None, (CA.pem,), NOW), Issue(), id="certificate-not-yet-valid"),
        pytest.param(Observed(Chain(YOUNG, SERVING, False), None, (), NOW), Rotate(), id="authority-not-yet-valid"),
        pytest.param(Observed(Chain(CA, None, False), None, (b"",), None), Issue(), id="first"),
        pytest.param(Observed(EMPTY, None, (OLD.pem,), None), Publish(NEW.pem + OLD.pem), id="missing-beside-another"),
        pytest.param(Observed(EMPTY, None, (NEW.pem + OLD.pem,), NOW), Wait(NOW + SETTLE), id="missing-settles"),
        pytest.param(Observed(EMPTY, None, (NEW.pem + OLD.pem,), NOW - SETTLE), Issue(), id="missing-settled"),
        pytest.param(Observed(EMPTY._replace(authority=CA), None, (OLD.pem,), None), Issue(), id="missing-for-long"),
        pytest.param(
            Observed(STAGED._replace(serving=LAST), None, (LAST.pem,), None), Issue(), id="staged-and-nearly-expired"
        ),
        pytest.param(
            Observed(Chain(CA, SERVING, True, (EXPIRED,)), None, (CA.pem,), NOW), Forget(), id="previous-expired"
        ),
        pytest.param(
            Observed(Chain(CA, SERVING, True, (OLD,)), None, (BOTH,), NOW), Wait(OLD.not_after), id="previous-trusted"
        ),
    ],
)  # fmt: skip
def test_step_follows_from_the_world(observed: Observed, step: Step) -> None:  # WH-11
    assert decide(observed, NOW) == step


def test_bundle_has_each_authority_once() -> None:
    assert Chain(CA, None, False, (OLD, CA)).bundle == BOTH


def test_clock_that_is_five_minutes_behind_delays_and_breaks_nothing() -> None:
    young = certificate("ca", 55 / (24 * 60))
    behind = Chain(young, young, is_current=True)
    assert isinstance(decide(Observed(behind, None, (young.pem,), NOW), NOW), Wait)
