"""Queues of Volcano: quota, and the fair share of each queue."""
