"""A Kubernetes cluster for development and tests in one process.

`apiserver` is an API server without sockets or clients: requests in, responses out. `cluster` stands on it: the
cluster's controllers and nodes, and the listener that serves it over HTTPS, on the runtime of `kcr`.
"""
