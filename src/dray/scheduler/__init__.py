"""The scheduler: assigns nodes and devices to pods, writes both, reports unschedulable pods."""
