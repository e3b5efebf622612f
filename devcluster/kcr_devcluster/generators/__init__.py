"""Commands that write code for developers: `kcr init` and `kcr types generate`."""
