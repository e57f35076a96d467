"""Why a helper process has no text of its library."""


class AbsentError(Exception):
    """This host does not have the library."""


class FailedError(Exception):
    """A call failed without which the library states nothing."""
