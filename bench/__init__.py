"""What is measured, against what, by one command: `python -m bench`.

Each measurement runs in a process of its own, kcr and its peers one after the other in the same run. Read the
ratios: absolute figures are those of a machine that does other things as well.
"""
