"""The link to Telegram: calls of the Bot API around `parsing` and `formatting`.

The outcome of a send is reported as exactly as it is known:

| Outcome | Reaction |
|---|---|
| the server was not reached | retry for some seconds; then `NotSent`, and the link is lost |
| the answer was lost, or is a 5xx | `OutcomeUnknown`; for an edit, which may be repeated, `LinkLost` |
| 429 | `FloodWait` |
| 403, or the chat is not found | `ChatGone` |
| the markup is refused | one retry as plain text |
| the topic is gone | one retry outside of it |
| the group has become another chat | one retry there |
| the token is refused | `NotSent`, and the link is lost; the next connection raises `CredentialsRefused` |
| any other error | `Refused` |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

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
ACKNOWLEDGE_WITHIN = 5.0

_METHODS = {"photo": "sendPhoto", "voice": "sendVoice"}

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of a call, and the field that it goes into."""

    field: Literal["text", "caption"]
    markdown: str
    preformatted: Preformatted = ()


class TelegramLink(BaseLink):
    """A link to the Bot API, until the server cannot be reached."""

    def __init__(self, api: Api, bot: Bot, updates: Updates) -> None:
        super().__init__(TRAITS)
        self._api, self._bot, self._updates = api, bot, updates

    # --- messages of people ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._updates, self._bot, self._acknowledge)

    async def _acknowledge(self, press: MessageEvent) -> None:
        """Acknowledge a press. Without it the button shows for half a minute that it is busy."""
        try:
            await self._api.call(
                "answerCallbackQuery", {"callback_query_id": press.message_id}, within=ACKNOWLEDGE_WITHIN
            )
        except (Denied, NotReached, NoAnswer) as error:
            log.info("button press not acknowledged", platform=self._bot.platform, error=str(error))

    # --- messages of the gateway ---

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
                sent = _id_of(await self._send_as_kind_or_document(params, file, text)) or sent
            except PlatformError as error:
                if sent is None:
                    raise
                raise OutcomeUnknown(f"A part of the message arrived: {error}") from error
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
        await self._call_once("deleteMessage", params)

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        # Only this method needs the number of the general topic. In the direct messages of a channel Telegram
        # shows no typing and would refuse the call.
        params: dict[str, object] = {"chat_id": chat_id, "action": "typing"}
        if thread_id is not None and thread_id.startswith(DIRECT):
            await trio.lowlevel.checkpoint()
            return
        if thread_id is not None:
            params["message_thread_id"] = _number(thread_id)
        await self._call_once("sendChatAction", params)

    async def _fetch(self, file_id: str, most: int) -> bytes:
        try:
            file = await self._api.call("getFile", {"file_id": file_id})
            path, size = file.get("file_path"), file.get("file_size")
            if isinstance(size, int) and size > most:
                raise Refused(f"The file has {size} bytes.")
            if not isinstance(path, str) or path.startswith("/"):
                raise Refused("The file is not at a path that can be downloaded.")
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
        # In a topic of a group the context of an answer is visible. Elsewhere the reply also keeps an answer
        # in its place if the topic is gone.
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

    async def _send_as_kind_or_document(
        self, params: Mapping[str, object], file: Attachment, caption: str
    ) -> Any:
        """Send a file as its kind, or else as a document: Telegram refuses some pictures and recordings."""
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
            return await self._call_with_text(
                method, {**params, field: file.url or file.file_id}, _Text("caption", caption), OutcomeUnknown
            )
        try:
            data = await trio.Path(file.path).read_bytes()
        except OSError as error:
            raise Refused(f"{file.path} cannot be read: {error.strerror}.") from error
        name = file.name or trio.Path(file.path).name
        return await self._call_with_text(
            method, params, _Text("caption", caption), OutcomeUnknown, files={field: (name, data)}
        )

    async def _write(
        self,
        method: str,
        params: Mapping[str, object],
        text: str,
        lost: type[PlatformError],
        preformatted: Preformatted = (),
    ) -> Any:
        """Send or edit a text without link previews. A manipulated model could write secrets into a URL, and
        the preview would send them to its server before any person opens it."""
        no_preview = {"link_preview_options": {"is_disabled": True}}
        return await self._call_with_text(
            method, {**params, **no_preview}, _Text("text", text, preformatted), lost
        )

    async def _call_with_text(
        self,
        method: str,
        params: Mapping[str, object],
        text: _Text,
        lost: type[PlatformError],
        files: Mapping[str, tuple[str, bytes]] | None = None,
    ) -> Any:
        """Send or edit a text, as MarkdownV2 if Telegram accepts it. Raises `lost` if the outcome is unknown.
        Markup, topic and chat id are each dropped or replaced at most once if Telegram objects to them; the
        markup of a preformatted text is required."""
        params, chat_id = dict(params), params["chat_id"]
        plain: dict[str, object] = {text.field: text.markdown}
        formatted = to_markdown_v2(text.markdown, text.preformatted)
        content = {text.field: formatted, "parse_mode": "MarkdownV2"} if formatted.strip() else plain
        unreached = NotSent if lost is OutcomeUnknown else lost
        while True:
            try:
                return await self._call(method, {**params, **content}, files, unreached)
            except NoAnswer as error:
                raise lost(f"Telegram did not answer: {error}.") from error
            except Denied as no:
                if (
                    content is not plain
                    and not text.preformatted
                    and no.says("can't parse entities", "is too long", "text is empty")
                ):
                    log.warning("markup refused; text sent as plain text", error=str(no))
                    content = plain
                elif "message_thread_id" in params and no.says("thread not found"):
                    del params["message_thread_id"]
                elif no.moved_to is not None and params["chat_id"] == chat_id != no.moved_to:
                    params["chat_id"] = no.moved_to
                else:
                    raise self._refusal(no) from no

    async def _call_once(self, method: str, params: Mapping[str, object]) -> None:
        """Call once, without a retry: the caller repeats the call itself, or does not need it."""
        try:
            await self._api.call(method, params)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    async def _call(
        self,
        method: str,
        params: Mapping[str, object],
        files: Mapping[str, tuple[str, bytes]] | None,
        unreached: type[PlatformError],
    ) -> Any:
        """Call, and retry while the server is not reached: such a call certainly had no effect."""
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
            self._updates.end("it no longer accepts the token")
            return NotSent("Telegram no longer accepts the token.")
        if no.code == 403 or no.says("chat not found", "group chat was"):  # upgraded, deactivated
            return ChatGone(f"Telegram: {no.description}.")
        return Refused(f"Telegram: {no.description}.")


def _number(written: str) -> int:
    """Return an id as Telegram writes it. One from the configuration may be invalid."""
    try:
        return int(written)
    except ValueError:
        raise Refused(f"{written!r} is no id of a topic or a message of Telegram.") from None


def _id_of(sent: Any) -> str | None:
    """Return the id of a sent message. A message without an id has arrived too."""
    number = sent.get("message_id") if isinstance(sent, dict) else None
    return str(number) if isinstance(number, int) else None


def _is_long(text: str) -> bool:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 > LONGEST_CAPTION
