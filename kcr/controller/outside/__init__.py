"""Systems outside of the cluster: calls of libraries that block (`kcr.controller.outside.threads`)."""
