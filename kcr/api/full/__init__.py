"""Complete types of built-in kinds: every field, to be created, applied and replaced.

A type of a built-in kind is one of two things:

- A `kcr.ResourceView` (Pod, Node and Service of `kcr.api.core`) has the fields that controllers read, in few bytes. It
  is cached and patched; the client refuses to create or apply it, because fields that it lacks would be missing.
- A `kcr.FullResource` has all fields but managed fields; `client.update` takes it as well. Those of `kcr.api.core`,
  `kcr.api.apps` and `kcr.api.batch` are small and carry templates as bytes; the types here are typed to the last field:

```python
from kcr.api.full.apps_v1 import Deployment, DeploymentSpec
from kcr.api.full.core_v1 import Container, PodSpec, PodTemplateSpec
```

Watch and cache the views, send the complete types. One module for each group and version, made of the one schema by
`python -m tools.api_types`, and imported by nothing in kcr: they cost no memory where they are not used.
"""
