# The operator's image: `docker build -t YOUR-REGISTRY/regroup:0.1.0 .`, then `regroup manifests --image YOUR-REGISTRY/regroup:0.1.0`.
FROM python:3.11-slim
COPY requirements/run.lock /build/requirements/run.lock
RUN pip install --no-cache-dir --require-hashes -r /build/requirements/run.lock
COPY pyproject.toml README.md LICENSE /build/
COPY src /build/src
RUN pip install --no-cache-dir --no-deps /build && rm -rf /build
USER 65532
ENTRYPOINT ["regroup"]
