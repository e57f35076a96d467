"""The cases that no cause explains yet, of which each cause takes what it explains."""

from collections.abc import Callable, Collection, Iterable

from topo.diagnosis.finding import Case


class Cases:
    """The cases that no cause explains yet. Mutable; made for one examination."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.left = list(cases)

    def of(self, *codes: str) -> list[Case]:
        """Return the cases of these codes, and leave them."""
        return [case for case in self.left if case.code in codes]

    def take(self, *codes: str, if_: Callable[[Case], bool] = lambda _: True) -> list[Case]:
        """Take out the cases of these codes that a cause explains, or all of them."""
        taken = [case for case in self.left if case.code in codes and if_(case)]
        self.left = [case for case in self.left if not (case.code in codes and if_(case))]
        return taken

    def forgive(self, names: Collection[str], *codes: str) -> list[Case]:
        """Take out the cases of these codes that concern none but these names."""
        known = frozenset(names)
        return self.take(*codes, if_=lambda case: known.issuperset(case.subjects))


def subjects(cases: Iterable[Case]) -> list[str]:
    """Return all names of the cases, each once, in the order of the cases."""
    return list(dict.fromkeys(name for case in cases for name in case.subjects))
