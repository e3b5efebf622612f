"""Rehearsal of an upgrade: a snapshot of a live cluster, and two versions of an operator on it in virtual time.

`taking` reads a cluster, `snapshot_file` is the file, `loading` makes the data folder of an embedded cluster of it.
`driver` is a program: it runs one version in the interpreter of that version, started by `versions`. `comparison`
compares what came of the two, and `report` shows it.
"""
