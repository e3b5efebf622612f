"""What a process serves: ports with probes, metrics and debug pages, and webhooks for the API server."""
