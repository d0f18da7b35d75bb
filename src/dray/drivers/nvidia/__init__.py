"""NVIDIA GPUs: whole, partitioned the moment a claim asks for it, or shared."""
