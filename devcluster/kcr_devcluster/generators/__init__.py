"""Commands that write files for developers: projects, classes, and manifests made of classes and controllers."""
