"""Commands that run or control a cluster or one of its components."""
