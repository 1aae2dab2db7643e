"""The checks of a configuration beyond the values of its keys: platforms, store, web and model.

`run` calls them before it starts; `config check` and `doctor` call them to report what `run` would refuse.
"""

from __future__ import annotations

from ..agent.providers.choose import configured, fallback
from ..base.errors import ConfigFinding, ConfigInvalid
from ..config.config_file import Loaded
from ..config.config_values import collect_findings
from ..gateway.links.adapters import find_adapters
from ..state.chosen_store import server_of
from ..web.http.server import check_reach


def check_start(loaded: Loaded) -> None:
    """Raise one `ConfigInvalid` with all reasons for which `run` would not start."""
    findings: list[ConfigFinding] = []
    with collect_findings(findings):
        find_adapters(loaded.config)
    findings += store_findings(loaded)
    findings += web_and_model_findings(loaded)
    if findings:
        raise ConfigInvalid.of(findings)


def store_findings(loaded: Loaded) -> list[ConfigFinding]:
    """Return the mistakes in the settings of the store."""
    findings: list[ConfigFinding] = []
    config = loaded.config
    with collect_findings(findings):
        if server_of(config.database) is not None and config.backup.every_hours:
            problem = "a backup of the home would not contain the database, which is on a server"
            raise ConfigInvalid(
                "backup.every_hours", problem, "Leave it out, and use the backups of the server."
            )
    return findings


def web_and_model_findings(loaded: Loaded) -> list[ConfigFinding]:
    """Return the mistakes in the settings of the web and of the model."""
    findings: list[ConfigFinding] = []
    with collect_findings(findings):
        check_reach(loaded.config.web)
    with collect_findings(findings):
        endpoint = configured(loaded.config.model, loaded.origins, loaded.environ)
        if endpoint is not None:
            fallback(loaded.config.model, endpoint, loaded.environ)
    return findings
