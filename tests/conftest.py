"""What all tests share."""

from hypothesis import settings

pytest_plugins = ("pytester",)

# No deadline per example: how long one takes says more about the machine's other work than about the code.
settings.register_profile("kcr", deadline=None)
settings.load_profile("kcr")
