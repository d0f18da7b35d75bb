"""The benchmarks behind `dray bench`."""
