"""The Job controller: runs pods until enough of them have succeeded.

A sync is level-triggered and idempotent, and has these steps:

```
observe ─▶ claim ─▶ decide ─▶ act ─▶ compute status ─▶ write ─▶ untrack ─▶ finalize status ─▶ write
store      pods     pure      pods   pure      status    pods       pure     status
```

Each write is safe to be the last one: the process may be killed after it, or its reply lost. Finished pods are written
to `uncountedTerminatedPods` before a finalizer is removed, counters move after it, and the terminal condition is
written last. A status is written with its resourceVersion as precondition (optimistic concurrency). A Job whose store
lags behind this process's own writes is not synced (read-your-writes).

The docstring of a function that reproduces one of upstream's names that one under `Source:`.
"""
