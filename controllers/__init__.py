"""The controllers that kcr ships: plugins, found through the entry-point group `kcr.controllers`."""
