"""The state of a process, for people and programs: the page `/debug/kcr` and its JSON."""
