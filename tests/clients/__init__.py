"""Clients of Kubernetes, asked the same things on `kcr dev` and on kube-apiserver: `make clients`."""
