"""`dray bench`: the benchmarks as commands."""
