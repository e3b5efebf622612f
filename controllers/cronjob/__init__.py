"""The CronJob controller: starts a Job whenever its schedule falls due.

Where descriptions of the controller upstream name a function, its behaviour lives here:

| name there                                        | room                            |
|---------------------------------------------------|---------------------------------|
| cron.ParseStandard; SpecSchedule.Next             | `kcr.api.crontab`; `cron`       |
| formatSchedule, time.LoadLocation                 | `schedule.timetable_of`, `schedule.zone_of` |
| mostRecentScheduleTime, nextScheduleTime          | `schedule.recent`, `schedule.due` |
| nextScheduleTimeDuration                          | `schedule.requeue_delay`        |
"""
