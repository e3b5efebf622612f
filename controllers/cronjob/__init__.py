"""The CronJob controller: starts a Job whenever its schedule falls due.

A reconcile is level-triggered and idempotent, and has these steps:

```
restore ─▶ clear away ─▶ confirm ─▶ decide ─▶ start ─▶ (next reconcile) restore
status     Jobs          reads      pure      Jobs                      status
```

A run that is due is started at once, and the next reconcile of the same CronJob records it in the status: of many
CronJobs that are due in the same minute, none waits for the status of another one. A process that ends in between loses
nothing, because the name of the Job identifies its run.

The docstring of a function that reproduces one of upstream's names that one under `Source:`.
"""
