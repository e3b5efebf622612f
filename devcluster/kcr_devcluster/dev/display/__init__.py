"""Progress of `kcr dev`: views of workloads, the live picture, and the handlers that feed it."""
