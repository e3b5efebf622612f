"""Controllers of the cluster that are not workload controllers, on kcr's own `Manager`, as anybody's are."""
