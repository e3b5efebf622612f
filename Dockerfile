# Built by `make image`. What is in it: CPython, the packages of requirements.lock, and kcr.
ARG PYTHON_IMAGE=python:3.14-slim

# The wheel is the same for all platforms.
FROM --platform=$BUILDPLATFORM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements-build.lock
COPY pyproject.toml LICENSE ./
COPY controllers controllers
COPY kcr kcr
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheel .

FROM ${PYTHON_IMAGE} AS environment
COPY requirements.lock /
RUN python -m venv --without-pip /opt/kcr \
    && pip --python /opt/kcr/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r /requirements.lock
COPY --from=wheel /wheel /wheel
RUN pip --python /opt/kcr/bin/python install --no-cache-dir --no-deps --no-index /wheel/*.whl

FROM ${PYTHON_IMAGE}
ARG PYTHON_IMAGE
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="kcr" \
      org.opencontainers.image.description="Job, CronJob and TTL controllers for Kubernetes, in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"
COPY --from=environment /opt/kcr /opt/kcr
# The file system may be read-only. glibc gives large buffers back as long as its threshold does not grow: docs/guide/operate.md, Sizing.
ENV PATH=/opt/kcr/bin:$PATH PYTHONDONTWRITEBYTECODE=1 MALLOC_MMAP_THRESHOLD_=131072
USER 65532:65532
ENTRYPOINT ["kcr", "run"]
