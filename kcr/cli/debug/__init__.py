"""Commands about a running process, at its debug port: `kcr debug`, and the queries of `kcr explain`."""
