"""The commands `kcr dev` and `kcr snapshot`: options, display, and the parts of the debug page that show a cluster."""
