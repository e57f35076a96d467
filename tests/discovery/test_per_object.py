"""What is derived from the sections that equal hosts share."""

from topo.discovery.node.per_object import once_per_object


def test_one_object_is_looked_through_once_and_an_equal_other_one_on_its_own():
    """Ten thousand equal hosts cost one look; identity is the key, equality is never asked."""
    looked: list[tuple[int, ...]] = []

    @once_per_object
    def total(numbers: tuple[int, ...]) -> int:
        looked.append(numbers)
        return sum(numbers)

    shared, other = tuple(range(1, 3)), tuple(range(1, 3))
    assert [total(each) for each in (*[shared] * 10_000, other)] == [3] * 10_001
    assert [id(each) for each in looked] == [id(shared), id(other)]


def test_objects_that_come_and_go_never_answer_for_each_other():
    """An identity is given again once its object is gone, and more come than are remembered."""

    @once_per_object
    def first(numbers: tuple[int, ...]) -> int:
        return numbers[0]

    assert [first((n,)) for n in range(5_000)] == list(range(5_000))
