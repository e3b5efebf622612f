"""Commands about a running process, at its debug port: `kcr debug`, and what `kcr explain` asks there."""
