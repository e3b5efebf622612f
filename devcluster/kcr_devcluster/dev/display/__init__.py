"""Progress of `kcr dev`: views of workloads, the live picture, and what feeds it."""
