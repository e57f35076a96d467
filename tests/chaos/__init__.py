"""Faults at random on a real running cluster, judged by a model that shares no code with it.

`model` says what may be seen and knows nothing of the product; `schedule` says what is done, from a
seed; `cluster`, `acts`, `readers`, `holding` and `attacks` do it to real processes and sockets.
"""
