"""The scrape of mx-exporter, and the rule that says when a MetaXLink port is well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.model.ids import ServerUuid
from topo.model.machine import Gpu, LinkErrors, LinkPort, Peer, PortState, ServerPeers

LOCAL = ServerUuid("1b0c2fa6-1dd2-11b2-01cc-b51e3bd74330")
X = ServerUuid("1ad2e412-1dd2-11b2-01cc-cb1e3bd74330")
Y = ServerUuid("1ae13bca-1dd2-11b2-01cc-1b8b3bd74330")


def device(index: int, **more: str) -> str:
    labels = {"deviceId": str(index), "uuid": f"GPU-87ba9f62-d02e-0528-f19e-{index:012}", **more}
    return "{" + ",".join(f'{key}="{word}"' for key, word in labels.items()) + "}"


def ports(*pairs: tuple[float, float]) -> str:
    """Speed and width of the ports of GPU 0, in the order of mxlkId."""
    return "\n".join(
        f"mx_mxlk_{what}{device(0, mxlkId=str(port))} {number}"
        for port, pair in enumerate(pairs, start=1)
        for what, number in zip(("speed", "width"), pair, strict=True)
    )


def servers(*samples: tuple[str, str, float]) -> str:
    return "\n".join(
        f'mx_server_info{{kind="{kind}",server_uuid="{uuid}",Hostname="n"}} {slot}'
        for kind, uuid, slot in samples
    )


def test_devices_come_from_any_metric_that_names_them():
    """Model, address and memory are labels and values of several families."""
    found = understood(
        f"# HELP mx_device_type Device type\nmx_device_type{device(1, deviceType='MXC550')} 1.0\n"
        f"...\nmx_gpu_state{device(0, bdfId='0000:0E:00.0')} 1.0 1700000000\n"
        f"mx_memory_total{device(0, type='vram', die_id='0')} 3.3554432e+07\n"
        f"mx_memory_total{device(0, type='vram', die_id='1')} 3.3554432e+07\n"
        f"mx_memory_total{device(0, type='xtt')} 7\n"
    )
    assert found.format == "mx-exporter"
    zero, one = items(found, Gpu)
    assert (zero.bdf, zero.healthy, zero.memory_bytes) == ("0000:0e:00.0", True, 64 * 2**30)
    assert (one.model, one.healthy, one.memory_bytes) == ("MXC550", None, None)


@pytest.mark.parametrize("index", ["128", "12345", "die-3"])
def test_a_device_that_no_host_has_is_told(index):
    """Once, however many samples it has."""
    family = "mx_gpu_state"
    lines = [f"{family}{device(0)} 1", *[f"{family}{device(0, deviceId=index)} 1"] * 3]
    found = understood("\n".join(lines))
    assert found.warnings == (f"no host has a device {index!r}: left out",)


def test_a_device_is_healthy_only_if_every_die_is():
    """Dies of one device share its deviceId."""
    (gpu,) = items(
        understood(
            f"mx_gpu_state{device(0, die_id='0', unavailable_reason='')} 1\n"
            f"mx_gpu_state{device(0, die_id='1', unavailable_reason='PCIe link down')} 0\n"
        ),
        Gpu,
    )
    assert (gpu.healthy, gpu.trouble) == (False, "unavailable: PCIe link down")


@pytest.mark.parametrize(
    ("speed", "width", "state"),
    [
        (0, 0, PortState.UNUSED),
        (32, 16, PortState.UP),
        (2.5, 16, PortState.UP),
        (16, 16, PortState.DOWN),
        (32, 8, PortState.DOWN),
        (32, 0, PortState.DOWN),
        (0, 16, PortState.DOWN),
    ],
)
def test_the_rule_of_the_vendors_own_exporter(speed, width, state):
    """Unused at 0 and 0, well at 16 lanes of 32 or, idle, 2.5 GT/s."""
    (port,) = items(understood(ports((speed, width))), LinkPort)
    assert (port.state, port.speed_gts, port.width) == (state, speed, width)
    assert bool(port.trouble) == (state is PortState.DOWN)


def test_ports_count_from_zero():
    """MxlkId counts from one; libraries count from zero."""
    assert [p.port for p in items(understood(ports((32, 16), (0, 0), (32, 16))), LinkPort)] == [
        0,
        1,
        2,
    ]


def test_half_a_port_is_left_out_and_told():
    """A speed without a width says nothing about health."""
    found = understood(ports((32, 16)) + f"\nmx_mxlk_speed{device(0, mxlkId='2')} 32\n")
    assert len(items(found, LinkPort)) == 1
    assert "1 ports have a speed or a width" in found.warnings[0]


def scrape(*devices: int, lacking: tuple[str, ...] = ()) -> str:
    """Type, state and three ports per device; `lacking`: no line that has all of these words."""
    lines = [
        line
        for index in devices
        for line in (
            f"mx_device_type{device(index, deviceType='MXC550')} 1",
            f"mx_gpu_state{device(index)} 1",
            *(
                f"mx_mxlk_{what}{device(index, mxlkId=str(port))} {number}"
                for port in (1, 2, 3)
                for what, number in (("speed", 32), ("width", 16))
            ),
        )
    ]
    return "\n".join(li for li in lines if not lacking or not all(w in li for w in lacking)) + "\n"


@pytest.mark.parametrize(
    ("devices", "named"), [((0, 1, 3), "2"), ((1, 2), "0"), ((0, 5), "1, 2, 3, 4")]
)
def test_a_gap_in_the_ids_of_the_devices_is_told(devices, named):
    """The card in the gap does not answer, or was cut off: this is no smaller host."""
    (warning,) = understood(scrape(*devices)).warnings
    assert warning == f"no metric of GPU {named}: the scrape is cut, or the card does not answer"


def test_a_gap_in_the_ids_of_the_links_of_one_device_is_told():
    """Where no device has the link, it is wired to nothing."""
    lacking = scrape(0, 1, lacking=('deviceId="1"', 'mxlkId="2"'))
    (warning,) = understood(lacking).warnings
    assert warning == "GPU 1: no metric of link 2, which others of its model have"
    assert understood(scrape(0, 1, lacking=('mxlkId="2"',))).warnings == ()


@pytest.mark.parametrize("family", ["mx_gpu_state", "mx_device_type"])
def test_a_family_that_one_device_lacks_is_told(family):
    """Without its state nobody knows that a card is well."""
    found = understood(scrape(0, 1, 2, lacking=(family, 'deviceId="1"')))
    assert f"no {family} of GPU 1, where 2 others have it" in found.warnings


def test_peers_keep_their_slots():
    """The value of a remote is its slot: 2 may be there without 1."""
    found = understood(servers(("local", LOCAL.upper(), 1), ("remote", X, 2)))
    assert items(found, ServerPeers) == [ServerPeers(LOCAL, (Peer(2, X),))]


@pytest.mark.parametrize(
    ("status", "connected", "warnings"),
    [
        ("", (None, None), 0),
        (f'mx_server_conn_status{{server_uuid="{LOCAL}"}} 1', (True, True), 0),
        (f'mx_server_conn_status{{server_uuid="{LOCAL}"}} 0', (None, None), 1),
        (f'mx_server_conn_status{{server_uuid="{X}"}} 0', (None, False), 0),
    ],
)
def test_the_connection_status_judges_all_links_at_once(status, connected, warnings):
    """It carries the local UUID: a 0 does not say which peer, so nobody is accused."""
    info = servers(("local", LOCAL, 1), ("remote", Y, 1), ("remote", X, 2))
    found = understood(f"{info}\n{status}\n")
    (peers,) = items(found, ServerPeers)
    assert tuple(peer.connected for peer in peers.remotes) == connected
    assert len(found.warnings) == warnings


@pytest.mark.parametrize("local", [[], [("local", LOCAL, 1), ("local", Y, 1)]])
def test_peers_need_exactly_one_local_server(local):
    """Without it nobody can join them."""
    found = understood(ports((32, 16)) + "\n" + servers(*local, ("remote", X, 1)))
    assert items(found, ServerPeers) == []
    assert "peers are left out" in found.warnings[-1]


def test_empty_slots_are_no_peers():
    """Empty and zero UUIDs, slots that are none."""
    found = understood(
        servers(
            ("local", LOCAL, 1),
            ("remote", "", 1),
            ("remote", "00000000-0000-0000-0000-000000000000", 2),
            ("remote", X, 0),
        )
    )
    assert items(found, ServerPeers)[0].remotes == ()


def test_escaped_labels_are_read():
    """Quotes, backslashes and line breaks, as the text format writes them."""
    (gpu,) = items(understood(r'mx_device_type{deviceId="0",deviceType="a\"b\\c\nd"} 1'), Gpu)
    assert gpu.model == r'a"b\c d'


@pytest.mark.parametrize(
    "text",
    [
        "mx_clk_thr 1\n",
        'mx_device_type{deviceId="x"} 1\nmx_device_type{deviceId="500"} 1\n',
        'mx_mxlk_speed{deviceId="0",mxlkId="1"} NaN\n',
        'mx_mxlk_speed{deviceId="0",mxlkId="1"} +Inf\n',
        'mx_mxlk_speed{deviceId="0",mxlkId="1"} 3_2\n',
        'mx_mxlk_speed{deviceId="0",mxlkId="1"} fast\n',
    ],
)
def test_a_scrape_without_a_fact_is_refused(text):
    """With the counters to switch on."""
    assert "mx_server_info" in refused(text).fix


@given(st.text(), st.text())
def test_lines_around_the_samples_do_not_matter(before, after):
    """Proxies, comments and dots."""
    before, after = (part.replace("mx_", "").replace("\r", "") for part in (before, after))
    sample = f"mx_device_type{device(0, deviceType='MXC550')} 1.0"
    found = understood(f"{before}\n{sample}\n{after}", "mx-exporter")
    assert [gpu.model for gpu in items(found, Gpu)] == ["MXC550"]


def test_errors_are_counted_per_link():
    """`mxlkId` counts from 1, links from 0; a word of a later release is passed over."""
    samples = (("1", "ce", 12), ("1", "ue", 0), ("7", "ce", 3), ("0", "ce", 1), ("2", "xe", 1))
    lines = [
        f"mx_mxlk_aer_count{device(0, mxlkId=link, type=word)} {count}.0"
        for link, word, count in samples
    ]
    found = items(understood("\n".join(lines)), LinkErrors)
    assert [(each.link, each.kind.value, each.count) for each in found] == [
        (0, "corrected", 12),
        (0, "uncorrected", 0),
        (6, "corrected", 3),
    ]
