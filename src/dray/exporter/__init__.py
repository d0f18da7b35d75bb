"""The exporter: figures about devices, claims and drivers of any cluster, for Prometheus."""
