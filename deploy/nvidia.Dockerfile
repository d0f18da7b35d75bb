# The image of `dray driver nvidia`. NVML comes from the machine, through --root.
#   docker build -f deploy/nvidia.Dockerfile -t dray-nvidia .
# The tag can move. To build from one image and no other, name it by its digest:
#   --build-arg BASE=python:3.12-slim@sha256:…   (docker buildx imagetools inspect python:3.12-slim)
ARG BASE=python:3.12-slim
FROM ${BASE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends util-linux \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml deploy/requirements.txt README.md LICENSE /src/
COPY src /src/src
# Everything by its hash, and then dray alone, built with what is installed.
RUN pip install --no-cache-dir --require-hashes -r /src/requirements.txt \
    && pip install --no-cache-dir --no-deps --no-build-isolation /src \
    && rm -rf /src
ENTRYPOINT ["dray", "driver", "nvidia"]
