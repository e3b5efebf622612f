"""Mutation testing of the runtime, the plugins and the API server: `make mutate`."""
