"""Commands about objects of a cluster: `kcr wait`, `kcr logs`."""
