"""The node agent: starts, stops and reports pods with the devices of their claims."""
