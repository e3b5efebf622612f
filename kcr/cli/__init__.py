"""The command line: `kcr run` and `kcr dev`."""
