"""The kinds that the server stores: catalogue, defaults and validation."""
