"""The benchmarks behind `dray bench`: scenarios in, figures out. Printing is the command line's."""
