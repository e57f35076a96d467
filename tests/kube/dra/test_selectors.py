"""Which devices a class chooses, of expressions as drivers write them."""

import pytest

from master.kube.dra.selectors import DeviceSelection, fact, read_selection

NVIDIA = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def test_a_class_of_a_driver_and_a_type_is_read() -> None:
    assert read_selection([NVIDIA]) == DeviceSelection(
        "gpu.nvidia.com", frozenset({("gpu.nvidia.com/type", '"gpu"')})
    )


def test_all_expressions_of_a_class_must_hold() -> None:
    found = read_selection(
        [
            'device.driver == "nic.example.com"',
            'device.attributes["nic.example.com"].rdma == true',
            'device.driver=="nic.example.com"&&device.attributes["nic.example.com"]["ports"]==2',
        ]
    )
    assert found is not None
    rdma, ports = ("nic.example.com/rdma", "true"), ("nic.example.com/ports", "2")
    assert found.has("nic.example.com", frozenset({rdma, ports, ("x/y", '"z"')}))
    assert not found.has("nic.example.com", frozenset({rdma}))
    assert not found.has("gpu.example.com", frozenset({rdma, ports}))


def test_a_class_without_expressions_chooses_every_device() -> None:
    found = read_selection([])
    assert found is not None
    assert found.has("any.example.com", frozenset())


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "true",
        "device.driver != 'a'",
        "!(device.driver == 'a')",
        "device.driver == 'a' || device.driver == 'b'",
        "device.driver == 'a && b'",
        "device.driver == 'a\\'b'",
        "device.driver == 'a' && device.driver == 'b'",
        "device.capacity['a'].memory.compareTo(quantity('40Gi')) >= 0",
        "device.attributes['a'].uuid == 'GPU-1'",
        "'a' in device.attributes && device.driver == 'a'",
    ],
)
def test_an_expression_that_is_not_read_chooses_nothing_that_is_counted(expression: str) -> None:
    assert read_selection([expression]) is None


def test_an_attribute_without_a_domain_is_of_the_driver() -> None:
    assert fact("a.com", "type", "gpu") == ("a.com/type", '"gpu"')
    assert fact("a.com", "b.com/type", 7) == ("b.com/type", "7")
    assert fact("a.com", "rdma", True) == ("a.com/rdma", "true")


@pytest.mark.parametrize("name", ["uuid", "resource.kubernetes.io/pciBusID", "mac", "ipv4"])
def test_what_names_one_device_alone_is_not_kept(name: str) -> None:
    assert fact("a.com", name, "x") is None


@pytest.mark.parametrize("name", ["machine", "chip", "ipu", "numaNode"])
def test_what_many_devices_have_is_kept(name: str) -> None:
    assert fact("a.com", name, "x") == (f"a.com/{name}", '"x"')
