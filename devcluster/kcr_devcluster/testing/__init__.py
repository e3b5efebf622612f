"""The part of the test kit with servers: `kcr.testing` has its names, and imports them when a test uses them."""
