"""The scheduler: finds a node for each pod that waits for one.

The decisions are plain functions: `filters` says why a node does not take a pod, `scores` which of those that do is
best, `preemption` which pods have to be deleted for it. They read `cluster_state`, which sums the requests of the pods
of each node; it changes with each watch event and each decision, so a decision never iterates over all pods.
`scheduler` is the shell: it watches, decides and writes.
"""
