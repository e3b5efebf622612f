"""The pytest plugin: fixtures and the virtual loop."""
