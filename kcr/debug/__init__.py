"""What a process is doing, for people and programs: the page `/debug/kcr` and the JSON behind it."""
