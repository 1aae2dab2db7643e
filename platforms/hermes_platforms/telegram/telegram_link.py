"""The link to Telegram: what the gateway sends and receives, in calls of the Bot API.

A text has up to three forms. The first one that Telegram accepts is sent:

| Form | For |
|---|---|
| a rich message | a text with a table, and one that is longer than 4,096 |
| MarkdownV2, in several messages if it is long | every text |
| plain | a text whose markup Telegram refuses all the same, unless parts of it have to be shown exactly |
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
    Draft,
    Log,
    MessageEvent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Refused,
    Traits,
    chunks,
)

from .api import Api, Denied, Files, NoAnswer, NotReached
from .calls import Calls, MarkupRefused
from .formatting import to_markdown_v2
from .incoming import Incoming
from .parsing import DIRECT, GENERAL, Bot
from .polling import Updates
from .rich import LONGEST, needs_rich, to_rich_html

TRAITS = Traits(
    limit=LONGEST,
    counting="characters",
    edits=True,
    deletes=True,
    typing=True,
    drafts=True,
    threads=True,
    buttons=True,
    fetches=True,
    sends_files=True,
    placeholder="…",
    dialect="markdown",
    preformatted=True,
)
CLASSIC = replace(TRAITS, limit=4096, counting="utf-16")
"""The traits without rich messages."""

LONGEST_CAPTION = 1024
ACKNOWLEDGE_WITHIN = 5.0
TAKEN_IN = "👀"

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

    def __init__(self, api: Api, bot: Bot, updates: Updates, traits: Traits = TRAITS) -> None:
        super().__init__(traits)
        self._api, self._bot, self._updates = api, bot, updates
        self._calls = Calls(api, updates)

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

    async def _react(self, chat_id: str, message_id: str) -> None:
        reaction = [{"type": "emoji", "emoji": TAKEN_IN}]
        params = {"chat_id": chat_id, "message_id": _number(message_id), "reaction": reaction}
        await self._calls.once("setMessageReaction", params)

    async def _fetch(self, file_id: str, most: int) -> bytes:
        file = await self._calls.once("getFile", {"file_id": file_id})
        path, size = file.get("file_path"), file.get("file_size")
        if isinstance(size, int) and size > most:
            raise Refused(f"The file has {size} bytes.")
        if not isinstance(path, str) or path.startswith("/"):
            raise Refused("The file is not at a path that can be downloaded.")
        return await self._calls.download(path, most)

    # --- messages of the gateway ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`."""
        params = self._address(message)
        if not message.attachments:
            return await self._send_text(params, message.text, message.preformatted)
        text, sent = message.text, None
        if _width(text) > LONGEST_CAPTION:
            sent = await self._send_text(params, text)
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

    async def _send_text(
        self, params: Mapping[str, object], text: str, preformatted: Preformatted = ()
    ) -> str | None:
        """Send a text as one rich message, or else as a message of the classic form, or as several."""
        if (html := self._rich_form(text, preformatted)) is not None:
            try:
                return _id_of(
                    await self._calls.send("sendRichMessage", {**params, "rich_message": {"html": html}})
                )
            except ChatGone:
                raise
            except Refused as error:
                log.warning("rich message refused; text sent as MarkdownV2", error=str(error))
        is_whole = preformatted or _width(text) <= CLASSIC.limit
        first, *others = [text] if is_whole else chunks(text, CLASSIC)
        sent = _id_of(await self._write("sendMessage", params, _Text("text", first, preformatted)))
        for piece in others:
            try:
                sent = _id_of(await self._write("sendMessage", params, _Text("text", piece)))
            except PlatformError as error:
                raise OutcomeUnknown(f"A part of the message arrived: {error}") from error
        return sent

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        params: dict[str, object] = {"chat_id": chat_id, "message_id": _number(message_id)}
        try:
            if (html := self._rich_form(text, preformatted)) is not None:
                try:
                    await self._calls.change("editMessageText", {**params, "rich_message": {"html": html}})
                    return
                except ChatGone:
                    raise
                except Refused as error:
                    if _is_unchanged(error) or _width(text) > CLASSIC.limit:
                        raise
                    log.warning("rich message refused; text edited as MarkdownV2", error=str(error))
            await self._write("editMessageText", params, _Text("text", text, preformatted), repeatable=True)
        except Refused as error:
            if not _is_unchanged(error):
                raise

    async def _delete(self, chat_id: str, message_id: str) -> None:
        params: dict[str, object] = {"chat_id": chat_id, "message_id": _number(message_id)}
        await self._calls.once("deleteMessage", params)

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        # Only this method needs the number of the general topic. In the direct messages of a channel Telegram
        # shows no typing and would refuse the call.
        params: dict[str, object] = {"chat_id": chat_id, "action": "typing"}
        if thread_id is not None and thread_id.startswith(DIRECT):
            await trio.lowlevel.checkpoint()
            return
        if thread_id is not None:
            params["message_thread_id"] = _number(thread_id)
        await self._calls.once("sendChatAction", params)

    async def _draft(self, draft: Draft) -> None:
        """Show a draft with Telegram's stop button. A stopped draft stays until its text is a message."""
        if draft.chat_id.startswith("-"):
            await trio.lowlevel.checkpoint()
            raise Refused("Telegram shows drafts in private chats only.")
        params: dict[str, object] = {
            "chat_id": _number(draft.chat_id),
            "draft_id": draft.number,
            "can_stop": True,
            "keep_on_stop": True,
        }
        if draft.thread_id is not None:
            params["message_thread_id"] = _number(draft.thread_id)
        html = self._rich_form(draft.text)
        if html is not None:
            await self._calls.once("sendRichMessageDraft", {**params, "rich_message": {"html": html}})
        else:
            await self._write("sendMessageDraft", params, _Text("text", draft.text), repeatable=True)

    def _rich_form(self, text: str, preformatted: Preformatted = ()) -> str | None:
        """Return the HTML of a text that only a rich message shows as it is meant; None for other texts."""
        if self.traits.limit == CLASSIC.limit:
            return None
        is_needed = _width(text) > CLASSIC.limit or (not preformatted and needs_rich(text))
        return to_rich_html(text, preformatted) if is_needed else None

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
            params = {**params, field: file.url or file.file_id}
            return await self._write(method, params, _Text("caption", caption))
        try:
            data = await trio.Path(file.path).read_bytes()
        except OSError as error:
            raise Refused(f"{file.path} cannot be read: {error.strerror}.") from error
        name = file.name or trio.Path(file.path).name
        return await self._write(method, params, _Text("caption", caption), files={field: (name, data)})

    async def _write(
        self,
        method: str,
        params: Mapping[str, object],
        text: _Text,
        *,
        files: Files | None = None,
        repeatable: bool = False,
    ) -> Any:
        """Call with a text, as MarkdownV2 if Telegram accepts it. The markup of a preformatted text is
        required. Links have no preview: a manipulated model could write secrets into a URL, and the preview
        would send them to its server before any person opens it."""

        async def call(content: Mapping[str, object]) -> Any:
            if repeatable:
                return await self._calls.change(method, {**params, **content})
            return await self._calls.send(method, {**params, **content}, files)

        if text.field == "text" and method != "sendMessageDraft":
            params = {**params, "link_preview_options": {"is_disabled": True}}
        formatted = to_markdown_v2(text.markdown, text.preformatted)
        if formatted.strip():
            try:
                return await call({text.field: formatted, "parse_mode": "MarkdownV2"})
            except MarkupRefused as error:
                if text.preformatted:
                    raise
                log.warning("markup refused; text sent as plain text", error=str(error))
        return await call({text.field: text.markdown})


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


def _is_unchanged(error: Refused) -> bool:
    """Return True for an edit that was made before."""
    return "message is not modified" in str(error)


def _width(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
