"""The gangs of a master, and a gang by the name of its job or of a pod."""

from collections.abc import Sequence
from typing import Any

from topo.cli.client.client import MasterClient
from topo.cli.client.decoding import decode
from topo.cli.exit_codes import CliError, Exit
from topo.cli.options import path_segment
from topo.model.conditions.gang_states import GangState
from topo.model.errors import Refusal
from topo.model.nearest import did_you_mean
from topo.model.rest.gangs import GangsDocument, GangSummary

_PATH = "/v1/gangs"


async def fetch_gangs(master: MasterClient, **query: str | None) -> Any:
    """Fetch the document of all gangs, of a `namespace`, or of the gang that has a `pod`.

    Raises `CliError` where the master places none.
    """
    raw = await master.document(_PATH, **query)
    off = decode(GangsDocument, raw)["off"]
    if off is not None:
        raise CliError(Exit.REFUSED, Refusal(off["detail"], "", off["fix"]))
    return raw


async def fetch_gang(master: MasterClient, name: str) -> Any:
    """Fetch the document of a gang; a job comes before a pod of the same name.

    Raises `CliError` where there is none of the name, or several.
    """
    namespace, slash, short = name.rpartition("/")
    where = namespace if slash else None
    every = decode(GangsDocument, await fetch_gangs(master))["gangs"]
    named = [g for g in every if g["name"] == short and where in {None, g["namespace"]}]
    if not named:
        raw = await fetch_gangs(master, namespace=where, pod=short)
        named = list(decode(GangsDocument, raw)["gangs"])
    if len(named) != 1:
        raise CliError(Exit.REFUSED, _refusal(name, named, every))
    return await master.document(f"{_PATH}/{path_segment(named[0]['id'], 'gang', '`topo gangs`')}")


async def open_gates(master: MasterClient, name: str | None) -> list[str]:
    """Open the gates of a gang, or of all gangs with unbound pods; return the names of the jobs.

    Raises `CliError`.
    """
    if name is None:
        every = decode(GangsDocument, await fetch_gangs(master))["gangs"]
        gated = (gang for gang in every if gang["state"] != GangState.NATIVE)
        chosen = [gang for gang in gated if gang["bound"] < gang["there"]]
    else:
        chosen = [decode(GangSummary, await fetch_gang(master, name))]
    for gang in chosen:
        await master.send(
            "POST", f"{_PATH}/{path_segment(gang['id'], 'gang', '`topo gangs`')}/open"
        )
    return [f"{gang['namespace']}/{gang['name']}" for gang in chosen]


def _refusal(name: str, named: Sequence[GangSummary], every: Sequence[GangSummary]) -> Refusal:
    if named:
        places = ", ".join(f"{gang['namespace']}/{gang['name']} ({gang['kind']})" for gang in named)
        fix = "write namespace/name, or look at them with `topo gangs -o json`"
        return Refusal(f"{len(named)} gangs are called {name!r}: {places}", "JOB|POD", fix)
    known = [gang["name"] for gang in every] + [
        f"{gang['namespace']}/{gang['name']}" for gang in every
    ]
    what = f"there is no gang whose job or pod is called {name!r}"
    otherwise = (
        "`topo gangs` lists them; a job without the annotation gpu-group-size is none, nor is one"
        " that has the Event GangUngrouped, which says why, or GangPassedBy, for it was made"
        " without the webhook: delete it and create it again; of a job that Kueue has not let in"
        " there are no pods yet: `kubectl describe workloads`"
    )
    return Refusal(what, "JOB|POD", did_you_mean(name, known, otherwise))
