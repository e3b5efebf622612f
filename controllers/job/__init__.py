"""The Job controller: runs pods until enough of them have succeeded.

A sync is level-triggered and idempotent, and goes through these steps:

```
observe ─▶ claim ─▶ decide ─▶ act ─▶ compute status ─▶ write ─▶ untrack ─▶ finalize status ─▶ write
store      pods     pure      pods   pure      status    pods       pure     status
```

Each write is safe to be the last one: the process may be killed after it, or its reply lost. Finished pods are written
to `uncountedTerminatedPods` before a finalizer is removed, counters move after it, and the terminal condition is
written last. A status is written with its resourceVersion as precondition (optimistic concurrency). A Job whose store
lags behind this process's own writes is not synced (read-your-writes).

Where older descriptions of this controller name a function, its behaviour lives here:

| name there                                  | module                          |
|---------------------------------------------|---------------------------------|
| NewJobController, Run                       | `controller.setup`              |
| addJob, updateJob, deleteJob                | `handlers`                      |
| addPod, updatePod, deletePod                | `handlers`                      |
| worker, processNextWorkItem                 | `kcr.controller`                |
| syncJob                                     | `reconciler`, `decide`          |
| getPodsForJob                               | `reconciler`, `adoption`        |
| getStatus                                   | `decide.count_pods`, `tracking` |
| manageJob                                   | `decide`, `parallelism`         |
| firstPendingIndexes, getIndexesForCreation  | `indexed`                       |
| matchPodFailurePolicy                       | `failure_policy`                |
| matchSuccessPolicy                          | `success_policy`                |
| deleteJobPods, slow start                   | `actions`                       |
| trackJobStatusAndRemoveFinalizers           | `status_update`, `tracking`     |
| enactJobFinished, updateJobStatus           | `status_update`, `reconciler`   |
| pastBackoffLimitOnFailure, getBackoff       | `backoff`                       |
| pastActiveDeadline                          | `deadline`                      |
| orphanWorker, syncOrphanPod                 | `orphans`                       |
| recordJobPodFinished and other counters     | `metrics`                       |
| TTL: processJob, processTTL, timeLeft       | `ttl`                           |
"""
