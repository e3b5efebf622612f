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

| name there                                  | module                               |
|---------------------------------------------|--------------------------------------|
| NewJobController, Run                       | `controller.setup`                   |
| addJob, updateJob, deleteJob                | `handlers`                           |
| addPod, updatePod, deletePod                | `handlers`                           |
| worker, processNextWorkItem                 | `kcr.controller`                     |
| syncJob                                     | `reconciler`, `decisions.decide`     |
| getPodsForJob                               | `actions.claim`                      |
| getStatus                                   | `decisions.decide.count_pods`        |
| manageJob                                   | `decisions.decide`                   |
| firstPendingIndexes, getIndexesForCreation  | `decisions.indexed`                  |
| matchPodFailurePolicy                       | `decisions.failures`                 |
| matchSuccessPolicy                          | `decisions.lifecycle`                |
| deleteJobPods, slow start                   | `actions`, `kcr.dependents`          |
| trackJobStatusAndRemoveFinalizers           | `decisions.status`                   |
| enactJobFinished, updateJobStatus           | `decisions.status`, `reconciler`     |
| pastBackoffLimitOnFailure, getBackoff       | `decisions.failures`                 |
| pastActiveDeadline                          | `decisions.lifecycle`                |
| expectations, ControllerExpectations        | `kcr.controller.own_writes`          |
| orphanWorker, syncOrphanPod                 | `handlers.OrphanReconciler`          |
| recordJobPodFinished and other counters     | `metrics`                            |
| TTL: processJob, processTTL, timeLeft       | `ttl`                                |
"""
