"""The page in a browser. A package, so that demo and browser end with its last test: while the
browser is driven no other test of the process can run a loop of its own.
"""
