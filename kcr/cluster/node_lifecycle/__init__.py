"""What happens around nodes that are not well: conditions, taints, and the eviction of pods that bear them no longer."""
