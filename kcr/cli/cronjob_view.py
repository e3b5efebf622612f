"""What `kcr dev` shows of a CronJob: values only, no terminal."""

from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

from kcr.api.batch import CronJob
from kcr.api.cron import next_run
from kcr.api.crontab import CronError, Every, Expression, UnknownZoneError, load_zone, parse
from kcr.api.meta import Key


class CronJobView(NamedTuple):
    """A CronJob as shown.

    Attributes:
        key: Its namespace and name.
        schedule: As its author wrote it.
        expression: The parsed schedule; None when it cannot be parsed.
        zone: The time zone of the schedule.
        suspended: Whether `spec.suspend` is set.
        active: How many of its Jobs are active.
        last: When its last run was due; None before the first.
        created: When it was created.
    """

    key: Key
    schedule: str
    expression: Expression | None
    zone: tzinfo
    suspended: bool
    active: int
    last: datetime | None
    created: datetime

    @property
    def kind(self) -> str:
        """How lines name its kind."""
        return "cronjob"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to it: never."""
        return False

    @property
    def state(self) -> str:
        """`Suspended` or `Scheduled`."""
        return "Suspended" if self.suspended else "Scheduled"

    @property
    def why(self) -> str:
        """Always empty: no state of a CronJob needs a reason."""
        return ""

    @property
    def news(self) -> tuple[object, ...]:
        """What must differ for it to be printed again."""
        return self.schedule, self.suspended, self.last

    def next_run(self, now: datetime) -> datetime | None:
        """Return when it is next due after a moment; None when it never is."""
        if self.suspended or self.expression is None:
            return None
        if isinstance(self.expression, Every):
            start, delay = self.last or self.created, self.expression.delay
            return start + ((now - start) // delay + 1) * delay
        return next_run(self.expression, now, self.zone)


def cronjob_view(cronjob: CronJob, zone: tzinfo) -> CronJobView:
    """Return what is shown of a CronJob.

    Args:
        cronjob: The CronJob.
        zone: The zone of schedules that name none.
    """
    spec, status = cronjob.spec, cronjob.status
    expression: Expression | None = None
    # The server validates both fields; a value that gets past it counts as absent.
    with suppress(UnknownZoneError):
        zone = zone if spec.time_zone is None else load_zone(spec.time_zone)
    with suppress(CronError):
        expression = parse(spec.schedule)
    return CronJobView(
        key=cronjob.key,
        schedule=spec.schedule,
        expression=expression,
        zone=zone,
        suspended=bool(spec.suspend),
        active=len(status.active),
        last=status.last_schedule_time,
        created=cronjob.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC),
    )
