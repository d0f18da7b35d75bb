"""Random scenarios for the allocator: one family per feature of DRA, and mixed ones."""
