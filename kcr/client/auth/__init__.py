"""Where the API server is and who one is there: kubeconfig, in-cluster configuration, credentials, TLS."""
