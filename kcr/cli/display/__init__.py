"""The display of Jobs, pods and logs while `kcr dev` runs."""
