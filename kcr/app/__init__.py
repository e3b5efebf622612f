"""The composition root: `kcr.run(setup)`, `kcr run` and `kcr dev` are wired here, and only here.

A user's program, `kcr run` and `kcr dev` differ in where their controllers and their server come from. Their common
parts are in this package: the process (signals, event loop, garbage collector), the log lines, the options of plugins,
the checks at the first contact with a server. The command line above it reads arguments and shows results.

- `run` connects to an API server and runs controllers on it; it never imports the embedded cluster.
- `dev` starts the embedded cluster and runs controllers on that.
"""
