"""The strategy of CustomResourceDefinitions: what a definition may say."""
