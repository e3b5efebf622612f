"""The cluster's controllers that are not workload controllers; they run on `Manager`."""
