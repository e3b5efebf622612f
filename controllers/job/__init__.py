"""The Job controller: runs pods until enough of them have succeeded.

One pass over a Job goes through the rooms in this order:

```
observe ─▶ claim ─▶ decide ─▶ act ─▶ settle ─▶ record ─▶ untrack ─▶ close ─▶ record
store      pods     pure      pods   pure      status    pods       pure     status
```

Where older descriptions of this controller name a function, its behaviour lives here:

| name there                                  | room                            |
|---------------------------------------------|---------------------------------|
| NewJobController, Run                       | `controller.setup`              |
| addJob, updateJob, deleteJob                | `handlers`                      |
| addPod, updatePod, deletePod                | `handlers`                      |
| worker, processNextWorkItem                 | `kcr.controller`                |
| syncJob                                     | `reconciler`, `decide`          |
| getPodsForJob                               | `reconciler`, `adoption`        |
| getStatus                                   | `decide.tally`, `tracking`      |
| manageJob                                   | `decide`, `parallelism`         |
| firstPendingIndexes, getIndexesForCreation  | `indexed`                       |
| matchPodFailurePolicy                       | `failure_policy`                |
| matchSuccessPolicy                          | `success_policy`                |
| deleteJobPods, slow start                   | `actions`                       |
| trackJobStatusAndRemoveFinalizers           | `settle`, `tracking`            |
| enactJobFinished, updateJobStatus           | `settle.close`, `reconciler`    |
| pastBackoffLimitOnFailure, getBackoff       | `backoff`                       |
| pastActiveDeadline                          | `deadline`                      |
| orphanWorker, syncOrphanPod                 | `orphans`                       |
| recordJobPodFinished and other counters     | `metrics`                       |
| TTL: processJob, processTTL, timeLeft       | `ttl`                           |
"""
