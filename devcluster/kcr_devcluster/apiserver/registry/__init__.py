"""The registry: create, update and delete, the same for all kinds."""
