"""Paths of configuration keys, and the type of the fixture that loads a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hypothesis import HealthCheck, settings

from hermes_trio.config.config_file import Loaded
from hermes_trio.config.section import Section, keys

Load = Callable[..., Loaded]

# One directory serves all examples of a property: each writes its files anew.
rewriting = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def at(config: Section, path: str) -> object:
    """Return the value at a dotted path."""
    value: object = config
    for name in path.split("."):
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


def paths(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Yield every path that ends in a value; a name chosen by people is `*`."""
    for key in keys(section):
        if key.section:
            yield from paths(key.section, f"{prefix}{key.name}.")
        elif key.named:
            yield from paths(key.named, f"{prefix}{key.name}.*.")
        else:
            yield prefix + key.name
