"""What a configuration must fulfil beyond the values of its keys, so that `run` starts with it.

`run` asks here before it starts, `config check` and `doctor` to say what it would refuse.
"""

from __future__ import annotations

from ..agent.providers.choose import configured, fallback
from ..base.errors import ConfigFinding, ConfigInvalid
from ..config.config_file import Loaded
from ..config.config_values import collect_findings
from ..gateway.links.adapters import find_adapters
from ..web.http.server import check_reach


def startable(loaded: Loaded) -> None:
    """Raise one `ConfigInvalid` with everything for which `run` does not start."""
    findings: list[ConfigFinding] = []
    with collect_findings(findings):
        find_adapters(loaded.config)
    findings += refused(loaded)
    if findings:
        raise ConfigInvalid.of(findings)


def refused(loaded: Loaded) -> list[ConfigFinding]:
    """Return what is wrong with the web and with the model."""
    findings: list[ConfigFinding] = []
    with collect_findings(findings):
        check_reach(loaded.config.web)
    with collect_findings(findings):
        endpoint = configured(loaded.config.model, loaded.origins, loaded.environ)
        if endpoint is not None:
            fallback(loaded.config.model, endpoint, loaded.environ)
    return findings
