"""The controllers that a cluster has beside its workload controllers: garbage collection, namespaces, quota status."""
