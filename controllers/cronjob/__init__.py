"""The CronJob controller: starts a Job whenever its schedule falls due.

A reconcile is level-triggered and idempotent, and goes through these steps:

```
restore ─▶ clear away ─▶ confirm ─▶ decide ─▶ start ─▶ (next reconcile) restore
status     Jobs          reads      pure      Jobs                      status
```

What is due is started at once, and recorded in the status by the next reconcile of the same CronJob: so of many that
are due in the same minute none waits for another's status. A process that ends in between loses nothing, for the Job
itself tells which run it is.

Where descriptions of the controller upstream name a function, its behaviour lives here:

| name there                                                   | module                                     |
|--------------------------------------------------------------|--------------------------------------------|
| NewControllerV2, updateCronJob, addJob, updateJob, deleteJob | `controller`                               |
| sync                                                         | `reconciler`                               |
| getJobsToBeReconciled                                        | `decisions.jobs.controller_names`          |
| cleanupFinishedJobs, removeOldestJobs                        | `decisions.jobs`, `actions.clear_away`     |
| syncCronJob                                                  | `decisions`, `actions.start`               |
| getJobFromTemplate2, getJobName                              | `decisions.jobs`                           |
| cron.ParseStandard; SpecSchedule.Next                        | `kcr.api.crontab`; `cron`                  |
| formatSchedule, time.LoadLocation                            | `decisions.schedule`                       |
| mostRecentScheduleTime, nextScheduleTime                     | `decisions.schedule.recent`, `.due`        |
| nextScheduleTimeDuration                                     | `decisions.schedule.requeue_delay`         |
"""
