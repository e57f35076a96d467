"""Faults at random on a real running cluster, judged by a model that shares no code with it.

`model` says what may be seen and knows nothing of the product; `schedule` says what is done, from a
seed; the others do it to real processes and sockets, and read what they answer.
"""
