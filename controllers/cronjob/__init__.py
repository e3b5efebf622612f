"""The CronJob controller: starts a Job whenever its schedule falls due.

One pass over a CronJob goes through the rooms in this order:

```
recall ─▶ clear away ─▶ confirm ─▶ decide ─▶ start ─▶ (next pass) recall
status    Jobs          reads      pure      Jobs                status
```

What is due is started at once, and put on record in the next pass over the same CronJob: so of many that are due in the
same minute none waits for the books of another. A process that ends in between loses nothing, for the Job itself tells
which run it is.

Where descriptions of the controller upstream name a function, its behaviour lives here:

| name there                                        | room                            |
|---------------------------------------------------|---------------------------------|
| NewControllerV2, updateCronJob, addJob, updateJob, deleteJob | `controller`         |
| sync                                              | `reconciler`                    |
| getJobsToBeReconciled                             | `jobs.controller_names`         |
| cleanupFinishedJobs, removeOldestJobs             | `history`, `actions.clear_away` |
| syncCronJob                                       | `doubts`, `active`, `decide`, `actions.start` |
| getJobFromTemplate2, getJobName                   | `job_template`                  |
| cron.ParseStandard; SpecSchedule.Next             | `kcr.api.crontab`; `cron`       |
| formatSchedule, time.LoadLocation                 | `schedule.timetable_of`, `schedule.zone_of` |
| mostRecentScheduleTime, nextScheduleTime          | `schedule.recent`, `schedule.due` |
| nextScheduleTimeDuration                          | `schedule.requeue_delay`        |
"""
