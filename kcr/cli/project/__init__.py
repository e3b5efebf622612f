"""`kcr init`: the contents of a new project."""
