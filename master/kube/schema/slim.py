"""How a slim model of a Kubernetes object is read: frozen, by the names of the API."""

from pydantic import AliasGenerator, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

_CONFIG = ConfigDict(
    alias_generator=AliasGenerator(validation_alias=to_camel),
    populate_by_name=True,
    coerce_numbers_to_str=True,  # a custom resource may hold a quantity as a number
)
slim = dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
