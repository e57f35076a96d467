"""Names of the product's modules for others: for a child process, a message, a table.

An import statement needs none of this. The distribution has the packages below one of its own
(`packaging/backend.py`), so a name in a text is right only when it is made here.
"""

_ABOVE = __name__.removesuffix("topo.kit.process.modules")
PRODUCT = frozenset({"topo", "master", "worker", __name__.partition(".")[0]})
"""The top-level packages of the product."""


def module(name: str) -> str:
    """Return the name by which a module of the repository, such as `master.app`, is imported."""
    return _ABOVE + name
