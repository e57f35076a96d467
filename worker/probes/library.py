"""How a library that a helper process binds says that it has no text."""


class AbsentError(Exception):
    """This host does not have the library."""


class FailedError(Exception):
    """The library is there, and without the call that failed nothing can be said."""
