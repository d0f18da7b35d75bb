# The image of `dray driver nvidia`. NVML comes from the machine, through --root.
#   docker build -f deploy/nvidia.Dockerfile -t dray-nvidia .
FROM python:3.12-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends util-linux \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir -c /src/constraints.txt '/src[nvidia]' && rm -rf /src
ENTRYPOINT ["dray", "driver", "nvidia"]
