"""The Job controller: runs pods until enough of them have succeeded.

One pass over a Job goes through the rooms in this order:

```
observe ─▶ decide ─▶ act ─▶ settle ─▶ record ─▶ untrack ─▶ close ─▶ record
store      pure      pods   pure      status    pods       pure     status
```

Where older descriptions of this controller name a function, its behaviour lives here:

| name there                                  | room                            |
|---------------------------------------------|---------------------------------|
| NewJobController, Run                       | `controller.setup`              |
| addPod, updatePod, deletePod, updateJob     | `controller`                    |
| syncJob                                     | `reconciler`, `decide`          |
| getStatus                                   | `tracking.tally`                |
| manageJob                                   | `decide`, `parallelism`         |
| deleteJobPods, slow start                   | `actions`                       |
| trackJobStatusAndRemoveFinalizers           | `settle`, `tracking`            |
| enactJobFinished, updateJobStatus           | `settle.close`, `reconciler`    |
| pastBackoffLimitOnFailure, getBackoff       | `backoff`                       |
| pastActiveDeadline                          | `deadline`                      |
| orphanWorker, syncOrphanPod                 | `orphans`                       |

Not handled yet, and left alone with a Warning event: Indexed Jobs, and Jobs with a podFailurePolicy.
"""
