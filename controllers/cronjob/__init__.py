"""The CronJob controller: starts a Job whenever its schedule falls due.

A reconcile is level-triggered and idempotent, and has these steps:

```
restore ─▶ clear away ─▶ confirm ─▶ decide ─▶ start ─▶ (next reconcile) restore
status     Jobs          reads      pure      Jobs                      status
```

What is due is started at once, and recorded in the status by the next reconcile of the same CronJob: so of many that
are due in the same minute none waits for another's status. A process that ends in between loses nothing, for the Job
itself tells which run it is.

Where a function does what one of upstream's does, its docstring names that one under `Source:`.
"""
