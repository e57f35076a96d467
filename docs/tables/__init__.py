"""Tables of the documentation that are made from the code.

`python -m docs.tables` (`make docs`) writes them into the pages. Nothing that runs imports this.
"""
