"""HTTP to the API server: transport, retries, client-side throttling, decoding."""
