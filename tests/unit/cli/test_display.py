"""Plain lines."""

import io
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob, CronJobSpec
from kcr.api.core import ContainerState, ContainerStateWaiting, ContainerStatus, Pod, PodStatus
from kcr.api.meta import Key, ObjectMeta
from kcr.cli.display import Display, EventView, open_display
from kcr.controllers.job.commands.job_progress import JobView
from kcr.testing import FakeManager
from kcr_devcluster.dev.display.live import LiveDisplay
from kcr_devcluster.dev.display.views import cronjob_view, pod_view
from tests.kit.clocks import FixedClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


VIEW = JobView(Key("default", "pi"), 1, 1, 0, 0, 0, "Running", "", None, None)


def test_logs_are_data_and_the_rest_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(FixedClock(NOON))
    display.log("3.14")
    display.show(VIEW)
    display.event(EventView("job/pi", "FailedCreate", "no", warning=True))
    display.event(EventView("job/pi", "Completed", "Job completed", warning=False))
    shown = capsys.readouterr()
    assert shown.out == "3.14\n"
    assert shown.err.splitlines() == [
        "job pi: Running: 0/1 succeeded, 1 active",
        "Warning: job/pi: FailedCreate: no",
        "  - job/pi: Completed: Job completed",
    ]


def test_control_characters_are_escaped_but_in_logs(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(FixedClock(NOON))
    display.log("\x1b[32mgreen\x1b[0m")
    display.show(replace(VIEW, state="Failed", why="\x1b[2Jgone\u2028"))
    display.event(EventView("job/pi", "Failed", "\x9b1A", warning=True))
    shown = capsys.readouterr()
    assert shown.out == "\x1b[32mgreen\x1b[0m\n"
    assert shown.err == (
        "job pi: Failed: 0/1 succeeded, 1 active: \\x1b[2Jgone\\u2028\nWarning: job/pi: Failed: \\x9b1A\n"
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("variables", "encoding", "kind"),
    [
        pytest.param({"TERM": "xterm"}, "utf-8", LiveDisplay, id="terminal"),
        pytest.param({"TERM": "xterm", "LC_ALL": "en_US.UTF-8", "LANG": "C"}, "utf-8", LiveDisplay, id="lc-all-first"),
        pytest.param({"TERM": "xterm", "LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, "utf-8", LiveDisplay, id="lc-ctype"),
        pytest.param({"TERM": "xterm", "LC_ALL": "C", "LC_CTYPE": "en_US.UTF-8"}, "utf-8", Display, id="lc-all-c"),
        pytest.param({"TERM": "xterm", "LANG": "C"}, "utf-8", Display, id="lang-c"),
        pytest.param({"TERM": "xterm", "LC_ALL": "POSIX"}, "utf-8", Display, id="posix"),
        pytest.param({"TERM": "xterm"}, "ascii", Display, id="ascii"),
        pytest.param({"TERM": "dumb"}, "utf-8", Display, id="dumb"),
    ],
)
async def test_picture_needs_a_terminal_with_utf_8(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], encoding: str, kind: type[Display]
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ours, theirs = os.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w", encoding=encoding) as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        async with AsyncExitStack() as stack:
            assert type(open_display(stack, FakeManager())) is kind


@pytest.mark.asyncio
async def test_stderr_without_an_encoding_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    async with AsyncExitStack() as stack:
        assert type(open_display(stack, FakeManager())) is Display


def test_job_without_news_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(FixedClock(NOON))
    display.show(replace(VIEW, active=0))
    display.show(VIEW)
    display.show(replace(VIEW, ready=1))
    assert capsys.readouterr().err.count("\n") == 1


def test_cronjobs_and_pods_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(FixedClock(NOON))
    metadata = ObjectMeta(name="hello", namespace="default", creation_timestamp=NOON)
    display.show(cronjob_view(CronJob(metadata=metadata, spec=CronJobSpec(schedule="*/5 * * * *")), UTC))
    waiting = ContainerStatus(state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")))
    status = PodStatus(phase="Running", container_statuses=(waiting,))
    for phase in (PodStatus(phase="Pending"), PodStatus(phase="Running"), status, PodStatus(phase="Succeeded")):
        display.show(pod_view(Pod(metadata=metadata, status=phase)))
    display.gone("pod", Key("default", "hello"))
    assert capsys.readouterr().err.splitlines() == [
        "cronjob hello: Scheduled: */5 * * * *, last run none, next run 2026-01-01T12:05:00Z",
        "pod hello: Running",
        "pod hello: CrashLoopBackOff",
        "pod hello: Succeeded",
        "pod hello: deleted",
    ]
