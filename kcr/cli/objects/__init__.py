"""Commands about objects of a cluster: `kcr explain`, `kcr logs`, `kcr wait`, `kcr rerun` and so on."""
