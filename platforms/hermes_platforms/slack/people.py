"""Names of people, whom Slack's events name by their ids only."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_trio.platform import LinkLost, Log

from .api import Denied, NoAnswer, NotReached, SlackApi

MOST_PEOPLE = 1000

log = Log(__name__)


class People:
    """The names that were asked for. A person without one is known by the id."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api
        self._names: dict[str, str] = {}

    async def names(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the names of people. Raises `LinkLost`."""
        return {one: await self._name(one) for one in dict.fromkeys(ids)}

    async def _name(self, user_id: str) -> str:
        if user_id not in self._names:
            if len(self._names) >= MOST_PEOPLE:
                self._names.clear()
            self._names[user_id] = await self._asked(user_id)
        return self._names[user_id]

    async def _asked(self, user_id: str) -> str:
        try:
            answer = await self._api.call("users.info", {"user": user_id})
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Slack did not answer: {error}.") from error
        except Denied as no:
            log.info("name not known", error=str(no))
            return user_id
        user = answer.get("user")
        profile = user.get("profile") if isinstance(user, dict) else None
        shown = profile if isinstance(profile, dict) else {}
        return str(shown.get("display_name") or shown.get("real_name") or user_id)
