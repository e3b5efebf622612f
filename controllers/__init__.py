"""The controllers that kcr brings along. Each is found through its entry point, like anybody's."""
