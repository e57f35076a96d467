"""The ConfigMap of Volcano's scheduler: which plugins it runs, and the text with one more.

Its configuration is YAML: `tiers`, a list of `{plugins: [{name, arguments, …}]}`. Volcano passes
over plugins that it does not have, and what it knows of others is not read here.

Sources: volcano-sh/volcano v1.14.1, pkg/scheduler/conf/scheduler_conf.go, pkg/scheduler/util.go;
the key is that of its chart (installer/helm/chart/volcano/templates/scheduler.yaml).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from master.kube.objects import ConfigMapObject
from topo.facts.declared import documents
from topo.model.errors import BadInputError, Refusal

KEY = "volcano-scheduler.conf"
_PLUGINS = re.compile(r"^[ \t]*(?:-[ \t]+)?plugins:[ \t]*(?:#.*)?$", re.MULTILINE)
_FIRST_ITEM = re.compile(r"\n(?:[ \t]*(?:#.*)?\n)*([ \t]*)- ")
"""What follows such a line: the first plugin, and how far it is indented."""
_FIX = "write tiers as a list of mappings with plugins, a list of mappings with name"


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The names of the plugins in their order, and the text that names them under `key`."""

    plugins: tuple[str, ...]
    key: str
    text: str


def scheduler_config(found: ConfigMapObject) -> SchedulerConfig | Refusal:
    """What the ConfigMap configures; a refusal where that cannot be told."""
    key = KEY if KEY in found.data or len(found.data) != 1 else next(iter(found.data))
    if key not in found.data:
        named = ", ".join(sorted(found.data)) or "nothing"
        return Refusal(f"it holds {named}, and no {KEY}", "data", f"name the one that has {KEY}")
    plugins = _plugins(found.data[key])
    if isinstance(plugins, Refusal):
        return Refusal(plugins.what, f"{key} {plugins.where}", plugins.fix)
    return SchedulerConfig(plugins, key, found.data[key])


def with_plugin(config: SchedulerConfig, name: str, arguments: Sequence[str]) -> str | None:
    """The text with a plugin more in its last list, nothing else changed.

    `arguments` are lines of its arguments. None where the list is not written a plugin a line.
    """
    lists = [found.end() for found in _PLUGINS.finditer(config.text)]
    before, rest = (config.text[: lists[-1]], config.text[lists[-1] :]) if lists else ("", "")
    item = _FIRST_ITEM.match(rest)
    if item is None:
        return None
    indent = item[1]
    lines = [f"{indent}- name: {name}", f"{indent}  arguments:"]
    lines += [f"{indent}    {line}" for line in arguments]
    text = "\n".join((before, *lines)) + rest
    after = _plugins(text)
    is_right = not isinstance(after, Refusal) and sorted(after) == sorted((*config.plugins, name))
    return text if is_right else None


def _plugins(text: str) -> tuple[str, ...] | Refusal:
    document = documents.load(text) if text.strip() else None
    if isinstance(document, Refusal):
        return document
    try:
        return tuple(_names(document))
    except BadInputError as error:
        return error.refusal


def _names(document: Any) -> Iterator[str]:
    if not isinstance(document, dict):
        raise _bad("it is no mapping", "at its top")
    for at, tier in enumerate(_listed(document, "tiers", "")):
        where = f"tiers[{at}]"
        if not isinstance(tier, dict):
            raise _bad("it is no mapping", where)
        for number, plugin in enumerate(_listed(tier, "plugins", f"{where}.")):
            name = plugin.get("name") if isinstance(plugin, dict) else None
            if not isinstance(name, str):
                raise _bad("it is no mapping with a name", f"{where}.plugins[{number}]")
            yield name


def _listed(document: dict[str, Any], name: str, where: str) -> list[Any]:
    found = document.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _bad("it is no list", f"{where}{name}")
    return found


def _bad(what: str, where: str) -> BadInputError:
    return BadInputError(Refusal(what, where, _FIX))
