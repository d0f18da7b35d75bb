"""The kubelet's plugin API, which node agents and drivers speak over unix sockets.

The .proto files have the packages, names and field numbers of Kubernetes 1.37, so that either side
may be somebody else's. `make generate` makes the *_pb2 modules from them.
"""
