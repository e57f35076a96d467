"""Outputs of tools as text builders: our own hosts, in the layouts that the tools print."""

from collections.abc import Sequence
from dataclasses import dataclass, field

BANNER = "=================== MetaX System Management Interface Log ==================="
NVIDIA_HEADINGS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_EXPLAINED = {
    "X": "Self",
    "SYS": "through the interconnect of the sockets",
    "NODE": "through host bridges of one NUMA node",
    "PHB": "through a host bridge",
    "PXB": "through several PCIe bridges",
    "PIX": "through one PCIe bridge",
    "NV#": "a bonded set of # NVLinks",
}


def nvidia_legend(*, nvlinks: bool = True) -> str:
    """As `nvidia-smi topo -m` ends; without its last line as `topo -mp` does."""
    lines = [f"  {code:<4} = {words}" for code, words in _EXPLAINED.items()]
    return "\n".join(["", "Legend:", "", *(lines if nvlinks else lines[:-1])]) + "\n"


@dataclass(frozen=True)
class Host:
    """A host's link matrix: names, `codes[row][column]`, and one (cpus, numa) per GPU."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]
    places: tuple[tuple[str, str], ...] = ()
    nic_names: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns, and rows."""
        return self.gpus + self.nics


def islands(size: int, island: int, inside: str = "MX", across: str = "SYS") -> Host:
    """`size` GPUs in groups of `island`, the groups far from each other."""
    codes = tuple(
        tuple(
            "X" if a == b else inside if a // island == b // island else across for b in range(size)
        )
        for a in range(size)
    )
    return Host(tuple(f"GPU{i}" for i in range(size)), (), codes)


def tabbed(host: Host) -> str:
    """As nvidia-smi prints to a pipe: tabs, a doubled one before the GPU NUMA ID."""
    lines = ["\t" + "\t".join([*host.names, *(NVIDIA_HEADINGS if host.places else ())])]
    for row, name in enumerate(host.names):
        cells = [f" {code} " if code == "X" else code for code in host.codes[row]]
        tail = ""
        if row < len(host.places):
            cpus, numa = host.places[row]
            tail = f"\t{cpus}\t{numa}\t\tN/A"
        elif host.places:
            tail = "\t" * 4
        lines.append("\t".join([name, *cells]) + tail)
    return "\n".join([*lines, *_nic_legend(host)]) + "\n"


def spaced(host: Host) -> str:
    """As mx-smi prints: columns of eight, Node Affinity before CPU Affinity."""
    headings = "Node Affinity  CPU Affinity" if host.places else ""
    lines = [
        BANNER,
        f"Attached GPUs                                     : {len(host.gpus)}",
        "Device link type matrix",
        "".join(f"{name:<8}" for name in ("", *host.names)) + headings,
    ]
    for row, name in enumerate(host.names):
        cells = "".join(f"{cell:<8}" for cell in (name, *host.codes[row]))
        tail = f"{host.places[row][1]:<15}{host.places[row][0]}" if row < len(host.places) else ""
        lines.append((cells + tail).rstrip())
    return "\n".join([*lines, *_nic_legend(host)]) + "\n"


def _nic_legend(host: Host) -> list[str]:
    if not host.nic_names:
        return []
    return ["", "NIC Legend:", "", *(f"  {nic}: {dev}" for nic, dev in host.nic_names.items())]


_BOXES = {
    "2.1.6": (
        (36, 21, 22),
        ("GPU         NAME", "Bus-id", "GPU-Util"),
        ("Temp        Power", "Memory-Usage", ""),
        ("{i}           {name}", "{bdf}", "0%"),
        ("51C         71W", "{used}/{total} MiB", ""),
    ),
    "2.1.12": (
        (36, 21, 22),
        ("GPU         NAME", "Bus-id", "GPU-Util"),
        ("Temp        Pwr:Usage/Cap", "Memory-Usage", ""),
        ("{i}           {name}", "{bdf}", "0%"),
        ("34C         97W / NA", "{used}/{total} MiB", ""),
    ),
    "2.2.4": (
        (36, 21, 22),
        ("GPU         NAME", "Bus-id", "GPU-Util"),
        ("Temp        Pwr:Usage/Cap", "Memory-Usage", "GPU-State"),
        ("{i}           {name}", "{bdf}", "0%"),
        ("29C         53W / 450W", "{used}/{total} MiB", "{state}"),
    ),
    "2.2.8": (
        (36, 21, 22),
        ("GPU     NAME         Persistence-M", "Bus-id", "GPU-Util      sGPU-M"),
        ("Temp    Pwr:Usage/Cap         Perf", "Memory-Usage", "GPU-State"),
        ("{i}       {name}             Off", "{bdf}", "0%            Native"),
        ("37C     29W / 225W              P0", "{used}/{total} MiB", "{state}"),
    ),
    "2.2.9": (
        (18, 17, 21, 22),
        ("Board       Name", "GPU   Persist-M", "Bus-id", "GPU-Util      sGPU-M"),
        ("Pwr:Usage/Cap", "Temp       Perf", "Memory-Usage", "GPU-State"),
        ("{i}     {name}", "{i}           Off", "{bdf}", "0%          Disabled"),
        ("57W / 350W", "35C          P0", "{used}/{total} MiB", "{state}"),
    ),
}
TABLE_VERSIONS = tuple(_BOXES)


def mx_table(version: str, cards: Sequence[tuple[str, str, str]], tool: str = "mx") -> str:
    """The table of one mx-smi version over (name, bdf, state) cards of 64 GiB each.

    `tool` is `ht` for the one that an OEM ships.
    """
    widths, above, below, first, second = _BOXES[version]

    def line(cells: Sequence[str]) -> str:
        return "|" + "|".join(f" {c:<{w - 1}}" for c, w in zip(cells, widths, strict=True)) + "|"

    rule = "+" + "+".join("-" * w for w in widths) + "+"
    lines = [
        f"{tool}-smi  version: {version}",
        "",
        BANNER if tool == "mx" else BANNER.replace("MetaX", "Mars"),
        f"Attached GPUs                                     : {len(cards)}",
        f"| {tool.upper()}-SMI {version:<27} Kernel Mode Driver Version: 3.4.4 |",
        "|" + rule[1:-1] + "|",
        line(above),
        line(below),
        "|" + rule[1:-1].replace("-", "=") + "|",
    ]
    for index, (name, bdf, state) in enumerate(cards):
        memory = {"used": 826, "total": 65536}
        words = {"i": index, "name": name, "bdf": bdf, "state": state, **memory}
        lines += [
            line([cell.format(**words) for cell in first]),
            line([cell.format(**words) for cell in second]),
            rule,
        ]
    lines += ["", "| Process:   |", "|  GPU   PID    Process Name   GPU Memory |", rule]
    return "\n".join(
        [*lines, "|  0     15652  python         60032      |", rule, "", "End of Log"]
    )


@dataclass(frozen=True)
class Tray:
    """What nvidia-smi says of each GPU of a host: the same for all, but for address and UUID."""

    gpus: int = 4
    state: str = "Completed"
    status: str = "Success"
    clique: str = "2"
    cluster: str = "dc6e40c4-d722-4357-9ba6-5291dd461278"
    summary: str = "Healthy"
    recovery: str = "None"
    memory: str = "189471 MiB"

    def bdf(self, index: int) -> str:
        """In nvidia-smi's spelling."""
        return f"0000000{index}:3B:00.0"

    def uuid(self, index: int) -> str:
        """One per GPU."""
        return f"GPU-1182579c-5a69-8e8e-cb7a-00000000000{index}"


def tray_xml(tray: Tray) -> str:
    """`nvidia-smi -q -x`, the parts that matter among some that do not."""
    gpus = "".join(
        f"""
    <gpu id="{tray.bdf(i)}">
        <product_name>NVIDIA GB200</product_name>
        <mig_devices><mig_device><index>0</index>
            <fb_memory_usage><total>10240 MiB</total></fb_memory_usage></mig_device></mig_devices>
        <uuid>{tray.uuid(i)}</uuid>
        <platformInfo>
            <chassis_serial_number>1820000000001</chassis_serial_number>
            <tray_index>4</tray_index><module_id>{i}</module_id>
        </platformInfo>
        <gpu_recovery_action>{tray.recovery}</gpu_recovery_action>
        <fb_memory_usage><total>{tray.memory}</total><used>0 MiB</used></fb_memory_usage>
        <bar1_memory_usage><total>262144 MiB</total></bar1_memory_usage>
        <fabric>
            <state>{tray.state}</state><status>{tray.status}</status>
            <cliqueId>{tray.clique}</cliqueId><clusterUuid>{tray.cluster}</clusterUuid>
            <health>
                <summary>{tray.summary}</summary><bandwidth>Full</bandwidth>
                <route_unhealthy>False</route_unhealthy>
                <incorrect_configuration>None</incorrect_configuration>
            </health>
        </fabric>
    </gpu>"""
        for i in range(tray.gpus)
    )
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
    <driver_version>570.124.06</driver_version>
    <attached_gpus>{tray.gpus}</attached_gpus>{gpus}
</nvidia_smi_log>
"""


def tray_text(tray: Tray) -> str:
    """`nvidia-smi -q`, the parts that matter among some that do not."""

    def pair(indent: int, key: str, word: str) -> str:
        return f"{' ' * indent + key:<42}: {word}"

    lines = ["==============NVSMI LOG==============", "", pair(0, "Attached GPUs", str(tray.gpus))]
    for i in range(tray.gpus):
        lines += [
            f"GPU {tray.bdf(i)}",
            pair(4, "Product Name", "NVIDIA GB200"),
            pair(4, "GPU UUID", tray.uuid(i)),
            "    MIG Mode",
            pair(8, "Current", "N/A"),
            "    Platform Info",
            pair(8, "Chassis Serial Number", "1820000000001"),
            pair(8, "Tray Index", "4"),
            pair(4, "GPU Recovery Action", tray.recovery),
            "    FB Memory Usage",
            pair(8, "Total", tray.memory),
            "    BAR1 Memory Usage",
            pair(8, "Total", "262144 MiB"),
            "    Fabric",
            pair(8, "State", tray.state),
            pair(8, "Status", tray.status),
            pair(8, "CliqueId", tray.clique),
            pair(8, "ClusterUUID", tray.cluster),
            "        Health",
            pair(12, "Summary", tray.summary),
            pair(12, "Bandwidth", "Full"),
            pair(12, "Route Unhealthy", "False"),
            pair(12, "Incorrect Configuration", "None"),
            "    Processes                             : None",
            "",
        ]
    return "\n".join(lines)
