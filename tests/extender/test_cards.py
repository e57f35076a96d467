"""What a pod asks for of a shared card, as a scheduler shows it."""

from typing import Any

import pytest

from master.extender.cards import asked_card, card_refusal


@pytest.mark.parametrize(
    ("memory", "mib"),
    [("4", 4096), ("512Mi", 512), ("1536Mi", 1536), ("2Gi", 2048), ("1Ti", 1 << 20), ("4e9", 3814)]
    + [(text, 0) for text in ("0", "", "²", "-1", "much", "1" * 40)],
)
def test_memory_of_a_shared_card_is_gib_where_it_is_bare_and_else_as_its_unit_says(
    memory: str, mib: int
) -> None:
    limits = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": 20}
    container = {"resources": {"limits": {**limits, "metax-tech.com/vmemory": memory}}}
    found = asked_card([container["resources"]["limits"]], "metax-tech.com")
    assert found is not None
    assert found.each[1:] == (20, mib)


@pytest.mark.parametrize(
    ("cores", "memory", "each"),
    [("50", "3000", (1, 50, 3000)), ("", "3000", (1, 0, 3000)), ("", "", (1, 0, 0))],
)
def test_the_pods_of_volcanos_page_are_read(
    cores: str, memory: str, each: tuple[int, int, int]
) -> None:
    """docs/user-guide/how_to_use_volcano_vgpu.md of v1.15: cores and memory are optional."""
    stated = {"number": "1", "cores": cores, "memory": memory}
    limits = {f"volcano.sh/vgpu-{name}": value for name, value in stated.items() if value}
    container = {"resources": {"limits": limits}}
    found = asked_card([container["resources"]["limits"]], "metax-tech.com")
    assert found is not None
    assert (found.number, found.each) == (1, each)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"tencent.com/vcuda-core": "250"}, "tencent.com/vcuda-core is 250"),
        ({"tencent.com/vcuda-core": 50}, "tencent.com/vcuda-memory is not given"),
        ({"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "120"}, "vgpu-cores is 120"),
        ({"tencent.com/vcuda-core": "0"}, ""),
        ({"tencent.com/vcuda-core": "200"}, ""),
        ({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "16"}, ""),
        ({"nvidia.com/gpu": "250"}, ""),
    ],
)
def test_amounts_that_no_card_can_give_are_refused_in_any_container(
    limits: dict[str, Any], why: str
) -> None:
    whole_card = {"tencent.com/vcuda-core": "100"}
    found = card_refusal([whole_card, limits], "a.com")
    assert (why in str(found)) if why else found is None
