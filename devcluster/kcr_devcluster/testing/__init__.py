"""The part of the test kit with virtual time and servers: `kcr.testing` has its names; and the pytest plugin."""
