"""Configuration of a client: kubeconfig, in-cluster configuration, credentials, TLS."""
