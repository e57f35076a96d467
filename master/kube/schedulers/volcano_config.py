"""The configuration of Volcano's scheduler in its ConfigMap: its actions and plugins.

The configuration is YAML: `actions`, names separated by commas, and `tiers`, a list of `{plugins:
[{name, arguments, …}]}`. Volcano ignores unknown plugins; other fields are not read here. Functions
return the text with an added action or plugin.

Sources: volcano-sh/volcano v1.14.1, pkg/scheduler/conf/scheduler_conf.go, pkg/scheduler/util.go;
the key is that of its chart (installer/helm/chart/volcano/templates/scheduler.yaml).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from master.kube.objects import ConfigMapObject
from topo.facts.declared import documents
from topo.model.errors import BadInputError, Refusal
from topo.placement.gpus.node_worth import OF_MANUAL, Weights

KEY = "volcano-scheduler.conf"
GPU_AWARE = "gpu-aware"
"""The vendor's plugin; stock Volcano passes over its name."""
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?", re.ASCII)
_ACTIONS = re.compile(
    r"""^actions:[ \t]*["']?([\w,-]+(?:[ \t]+[\w,-]+)*)[ \t]*(?:["'][ \t]*)?(?:#.*)?$""",
    re.MULTILINE,
)
_PLUGINS = re.compile(r"^[ \t]*(?:-[ \t]+)?plugins:[ \t]*(?:#.*)?$", re.MULTILINE)
_FIRST_ITEM = re.compile(r"\n(?:[ \t]*(?:#.*)?\n)*([ \t]*)- ")
"""Matches the first plugin after such a line and captures its indentation."""
_FIX = "write tiers as a list of mappings with plugins, a list of mappings with name"


class Configured(Protocol):
    """What a scheduler certainly or possibly fails to do.

    A text is empty if the scheduler does it, or if that is unknown.
    """

    @property
    def ignored(self) -> str:
        """Why the scheduler certainly ignores groups."""

    @property
    def unheeded(self) -> str:
        """Why the scheduler ignores groups, or that this is unknown."""

    @property
    def evicts_nobody(self) -> str:
        """Why the scheduler certainly evicts no pod for one of higher priority."""

    @property
    def link_weights(self) -> Weights:
        """The arguments of the vendor's plugin `gpu-aware`."""


@dataclass(frozen=True, slots=True)
class _NotRead:
    ignored: str = ""
    unheeded: str = ""
    evicts_nobody: str = ""
    link_weights: Weights = OF_MANUAL


NOT_READ: Configured = _NotRead()
"""The value of a master that reads no configuration."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The names of actions and plugins in order, and the text under `key` that holds them."""

    actions: tuple[str, ...]
    plugins: tuple[str, ...]
    key: str
    text: str

    @property
    def link_weights(self) -> Weights:
        """The arguments of `gpu-aware`; those that are no numbers are the manual's."""
        document: Any = documents.load(self.text) if GPU_AWARE in self.plugins else {"tiers": ()}
        found = (each for tier in document["tiers"] for each in tier.get("plugins") or ())
        stated = next((each.get("arguments") for each in found if each["name"] == GPU_AWARE), None)
        arguments = stated if isinstance(stated, dict) else {}
        return Weights(
            _number(arguments.get("weight"), OF_MANUAL.score),
            _number(arguments.get("loss.weight"), OF_MANUAL.loss),
        )


def _number(stated: object, default: float) -> float:
    text = stated.text if isinstance(stated, documents.NoText) else stated
    return float(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else default


def scheduler_config(found: ConfigMapObject) -> SchedulerConfig | Refusal:
    """Return the configuration in the ConfigMap, or a refusal where it cannot be read."""
    key = KEY if KEY in found.data or len(found.data) != 1 else next(iter(found.data))
    if key not in found.data:
        named = ", ".join(sorted(found.data)) or "nothing"
        return Refusal(f"it holds {named}, and no {KEY}", "data", f"name the one that has {KEY}")
    text = found.data[key]
    configured = _named(text)
    if isinstance(configured, Refusal):
        return Refusal(configured.what, f"{key} {configured.where}", configured.fix)
    actions, plugins = configured
    return SchedulerConfig(actions, plugins, key, text)


def with_action(config: SchedulerConfig, name: str, after: str) -> str | None:
    """Return the text with one more action, placed after `after` if that is present.

    Nothing else changes. Returns None if the actions are not written on one line.
    """
    found = _ACTIONS.search(config.text)
    if found is None:
        return None
    actions = list(config.actions)
    actions.insert(actions.index(after) + 1 if after in actions else len(actions), name)
    start, end = found.span(1)
    text = f"{config.text[:start]}{', '.join(actions)}{config.text[end:]}"
    return text if _named(text) == (tuple(actions), config.plugins) else None


def with_plugin(config: SchedulerConfig, name: str, arguments: Sequence[str]) -> str | None:
    """Return the text with one more plugin at the start of its last list.

    `arguments` are the lines of its arguments. Nothing else changes. Returns None if the list does
    not have one plugin per line.
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
    after = _named(text)
    is_right = not isinstance(after, Refusal) and sorted(after[1]) == sorted(
        (*config.plugins, name)
    )
    return text if is_right else None


def _named(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | Refusal:
    """Return the names of the actions and of the plugins."""
    document: Any = documents.load(text) if text.strip() else None
    if isinstance(document, Refusal):
        return document
    try:
        plugins = tuple(_names(document))
    except BadInputError as error:
        return error.refusal
    actions = document.get("actions")
    if actions is not None and not isinstance(actions, str):
        return Refusal("actions is no text", "actions", "write names with commas between them")
    return tuple(name for each in (actions or "").split(",") if (name := each.strip())), plugins


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
