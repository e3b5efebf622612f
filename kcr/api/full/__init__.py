"""Complete types of built-in kinds: every field, to be created, applied and replaced.

`kcr.api.core`, `kcr.api.apps` and `kcr.api.batch` have what controllers cache: the fields that they read, in few
bytes. A type there that has only some fields of its kind is a `kcr.ResourceView`, and the client refuses to create or
apply it: what it has no field for would be missing. The types here have all fields, but managed fields; they are
`kcr.FullResource`, which `client.update` takes as well:

```python
from kcr.api.full.apps_v1 import Deployment, DeploymentSpec
from kcr.api.full.core_v1 import Container, PodSpec, PodTemplateSpec
```

Watch and cache the views, send the complete types. One module for each group and version, made of the one schema by
`python -m tools.api_types`, and imported by nothing in kcr: they cost no memory where they are not used.
"""
