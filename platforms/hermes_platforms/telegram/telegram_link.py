"""Telegram as the gateway sees it: the thin shell around `parsing`, `formatting` and `api`.

What became of a send is told as precisely as it is known:

| what happened | what the gateway is told |
|---|---|
| the server was not reached | tried again here, for some seconds; then `NotSent`, and the link is lost |
| the answer was lost, or is a 5xx | `OutcomeUnknown`; of an edit, which may be repeated, `LinkLost` |
| 429 | `FloodWait` |
| 403, or the chat is not found | `ChatGone` |
| the markup is refused | the same once more, plain |
| the topic is gone | the same once more, outside of it |
| the group has become another chat | the same once more, there |
| the token is refused | `NotSent`, and the link is lost: the next one is refused for good |
| anything else | `Refused` |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import trio
import trio.lowlevel

from hermes_trio.platform import (
    Attachment,
    BaseLink,
    ChatGone,
    FloodWait,
    LinkLost,
    Log,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Refused,
    Traits,
)

from .api import Api, Denied, NoAnswer, NotReached
from .formatting import to_markdown_v2
from .incoming import Incoming
from .parsing import DIRECT, GENERAL, Bot
from .polling import Updates

TRAITS = Traits(
    limit=4096,
    counting="utf-16",
    edits=True,
    deletes=True,
    typing=True,
    threads=True,
    buttons=True,
    fetches=True,
    sends_files=True,
    placeholder="…",
    dialect="markdown",
    preformatted=True,
)

REACH_AGAIN_AFTER = (1.0, 2.0, 4.0)
LONGEST_CAPTION = 1024
THANK_WITHIN = 5.0

_METHODS = {"photo": "sendPhoto", "voice": "sendVoice"}

log = Log(__name__)


class TelegramLink(BaseLink):
    """A link to the Bot API, as long as it can be reached."""

    def __init__(self, api: Api, bot: Bot, updates: Updates) -> None:
        super().__init__(TRAITS)
        self._api, self._bot, self._updates = api, bot, updates

    # --- what people say ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._updates, self._bot, self._thank)

    async def _thank(self, press: MessageEvent) -> None:
        """Let the button that was pressed come to rest; by itself it would after half a minute."""
        try:
            await self._api.call(
                "answerCallbackQuery", {"callback_query_id": press.message_id}, within=THANK_WITHIN
            )
        except (Denied, NotReached, NoAnswer) as error:
            log.info("a press was not answered", platform=self._bot.platform, error=str(error))

    # --- what is said to them ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`."""
        params = self._address(message)
        if not message.attachments:
            return _id_of(
                await self._write("sendMessage", params, message.text, OutcomeUnknown, message.preformatted)
            )
        text, sent = message.text, None
        if _is_long(text):
            sent = _id_of(await self._write("sendMessage", params, text, OutcomeUnknown))
            text = ""
        for file in message.attachments:
            try:
                sent = _id_of(await self._send_anyhow(params, file, text)) or sent
            except PlatformError as error:
                if sent is None:
                    raise
                raise OutcomeUnknown(f"A part of it arrived: {error}") from error
            text = ""
        return sent

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        # A repeated edit changes nothing, so a lost answer is `LinkLost`: the core may send it again.
        params: dict[str, object] = {"chat_id": chat_id, "message_id": _number(message_id)}
        try:
            await self._write("editMessageText", params, text, LinkLost, preformatted)
        except Refused as no:
            if "message is not modified" not in str(no):
                raise

    async def _delete(self, chat_id: str, message_id: str) -> None:
        params: dict[str, object] = {"chat_id": chat_id, "message_id": _number(message_id)}
        await self._told("deleteMessage", params)

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        # Only this method needs the number of the general topic. In the direct messages of a channel Telegram
        # shows no typing and would refuse the call.
        params: dict[str, object] = {"chat_id": chat_id, "action": "typing"}
        if thread_id is not None and thread_id.startswith(DIRECT):
            await trio.lowlevel.checkpoint()
            return
        if thread_id is not None:
            params["message_thread_id"] = _number(thread_id)
        await self._told("sendChatAction", params)

    async def _fetch(self, file_id: str, most: int) -> bytes:
        try:
            file = await self._api.call("getFile", {"file_id": file_id})
            path, size = file.get("file_path"), file.get("file_size")
            if isinstance(size, int) and size > most:
                raise Refused(f"It has {size} bytes.")
            if not isinstance(path, str) or path.startswith("/"):
                raise Refused("Where it is cannot be reached from here.")
            return await self._api.download(path, most)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    def _address(self, message: Outgoing) -> dict[str, object]:
        params: dict[str, object] = {"chat_id": message.chat_id}
        thread_id = message.thread_id
        is_direct = thread_id is not None and thread_id.startswith(DIRECT)
        if thread_id is not None and is_direct:
            params["direct_messages_topic_id"] = _number(thread_id.removeprefix(DIRECT))
        elif thread_id is not None and thread_id != GENERAL:
            params["message_thread_id"] = _number(thread_id)
        # In a topic of a group it is seen what an answer belongs to. Elsewhere the reply is also what holds
        # an answer to its place when the topic is gone.
        in_topic = thread_id is not None and not is_direct and message.chat_id.startswith("-")
        if message.reply_to is not None and not in_topic:
            params["reply_parameters"] = {
                "message_id": _number(message.reply_to),
                "allow_sending_without_reply": True,
            }
        if message.silent:
            params["disable_notification"] = True
        if message.buttons:
            keys = [[{"text": one.label, "callback_data": one.value}] for one in message.buttons]
            params["reply_markup"] = {"inline_keyboard": keys}
        return params

    async def _send_anyhow(self, params: Mapping[str, object], file: Attachment, caption: str) -> Any:
        """Send a file as what it is, or else as a document: of pictures and recordings not all are taken."""
        try:
            return await self._send_file(params, file, caption)
        except ChatGone:
            raise
        except Refused:
            if file.kind not in _METHODS:
                raise
        return await self._send_file(params, replace(file, kind="document"), caption)

    async def _send_file(self, params: Mapping[str, object], file: Attachment, caption: str) -> Any:
        field = file.kind if file.kind in _METHODS else "document"
        method = _METHODS.get(file.kind, "sendDocument")
        if file.path is None:
            return await self._say(
                method, {**params, field: file.url or file.file_id}, caption, "caption", OutcomeUnknown
            )
        try:
            data = await trio.Path(file.path).read_bytes()
        except OSError as error:
            raise Refused(f"{file.path} cannot be read: {error.strerror}.") from error
        name = file.name or trio.Path(file.path).name
        return await self._say(
            method, params, caption, "caption", OutcomeUnknown, files={field: (name, data)}
        )

    async def _write(
        self,
        method: str,
        params: Mapping[str, object],
        text: str,
        lost: type[PlatformError],
        preformatted: Preformatted = (),
    ) -> Any:
        """Say this as a text, of which no address is looked at before a person does: a model that was talked
        into it writes secrets into addresses, and Telegram's preview would carry them there."""
        unseen = {"link_preview_options": {"is_disabled": True}}
        return await self._say(method, {**params, **unseen}, text, "text", lost, preformatted=preformatted)

    async def _say(
        self,
        method: str,
        params: Mapping[str, object],
        text: str,
        key: str,
        lost: type[PlatformError],
        files: Mapping[str, tuple[str, bytes]] | None = None,
        preformatted: Preformatted = (),
    ) -> Any:
        """Say this, in Telegram's own dialect if it takes that; `lost` if nobody knows whether it arrived.
        Each thing that Telegram may object to, and that can do without, is left out at most once; the markup
        of what is preformatted cannot be done without."""
        plain, params, chat_id = {key: text}, dict(params), params["chat_id"]
        formatted = to_markdown_v2(text, preformatted)
        said = {key: formatted, "parse_mode": "MarkdownV2"} if formatted.strip() else plain
        unreached = NotSent if lost is OutcomeUnknown else lost
        while True:
            try:
                return await self._reached(method, {**params, **said}, files, unreached)
            except NoAnswer as error:
                raise lost(f"Telegram did not answer: {error}.") from error
            except Denied as no:
                if (
                    said is not plain
                    and not preformatted
                    and no.says("can't parse entities", "is too long", "text is empty")
                ):
                    log.warning("a text goes without its markup", error=str(no))
                    said = plain
                elif "message_thread_id" in params and no.says("thread not found"):
                    del params["message_thread_id"]
                elif no.moved_to is not None and params["chat_id"] == chat_id != no.moved_to:
                    params["chat_id"] = no.moved_to
                else:
                    raise self._refusal(no) from no

    async def _told(self, method: str, params: Mapping[str, object]) -> None:
        """Call once: it is asked for again by itself, or not worth it."""
        try:
            await self._api.call(method, params)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    async def _reached(
        self,
        method: str,
        params: Mapping[str, object],
        files: Mapping[str, tuple[str, bytes]] | None,
        unreached: type[PlatformError],
    ) -> Any:
        """Call, and again while the server is not reached: then surely nothing was done."""
        for pause in (*REACH_AGAIN_AFTER, None):
            try:
                return await self._api.call(method, params, files=files)
            except NotReached as error:
                if pause is None or self._api.closed:
                    self._updates.end(str(error))
                    raise unreached(f"Telegram cannot be reached: {error}.") from error
            await trio.sleep(pause)
        raise AssertionError("The last pause is none.")

    def _refusal(self, no: Denied) -> PlatformError:
        if no.code == 429:
            return FloodWait(no.retry_after or 1.0)
        if no.refuses_token:
            self._updates.end("it does not know our token any more")
            return NotSent("Telegram does not know our token any more.")
        if no.code == 403 or no.says("chat not found", "group chat was"):  # upgraded, deactivated
            return ChatGone(f"Telegram: {no.description}.")
        return Refused(f"Telegram: {no.description}.")


def _number(written: str) -> int:
    """An id as Telegram writes it. Somebody may have written another into the configuration."""
    try:
        return int(written)
    except ValueError:
        raise Refused(f"{written!r} is no id of a topic or a message of Telegram.") from None


def _id_of(sent: Any) -> str | None:
    """The id of what was sent. Without one it has arrived all the same."""
    number = sent.get("message_id") if isinstance(sent, dict) else None
    return str(number) if isinstance(number, int) else None


def _is_long(text: str) -> bool:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 > LONGEST_CAPTION
