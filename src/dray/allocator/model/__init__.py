"""The vocabulary of the allocator: requests, candidates, rejections."""
