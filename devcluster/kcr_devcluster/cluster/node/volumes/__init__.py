"""Volumes of pods: their contents as files on the node, kept up to date, and where containers mount them.

Imported with the first pod that has volumes.
"""
