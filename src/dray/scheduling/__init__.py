"""The scheduling decision: which node and which devices for a pod, or why none.

`decision` is the entry. Nothing here reads a clock, draws a random number, waits or writes: state,
time and the end of a search are passed in, so that the scheduler, the planner and the command line
get the same answers.
"""
