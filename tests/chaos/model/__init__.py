"""What must hold of a cluster's answers, from its documentation alone: nothing here imports it.

Times are seconds of one monotonic clock, and arguments.
"""
