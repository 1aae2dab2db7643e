"""A bot that is written with another library: `python a_bot.py <base url> <token>`. It calls every method of
the simulated Bot API, and writes each result as a line of JSON. It runs in a process of its own because it
needs asyncio."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, Update
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.ext import Application, CallbackQueryHandler, ContextTypes, MessageHandler, filters
from telegram.request import HTTPXRequest


def write(name: str, value: object) -> None:
    print(json.dumps([name, value]), flush=True)


async def make_calls(bot: Bot) -> None:
    """Make one call after the other, and write each result."""
    me = await bot.get_me()
    write("me", [me.id, me.username, me.is_bot])
    write("commands", await bot.set_my_commands([BotCommand("help", "Helps")]))
    sent = await bot.send_message(42, "*Done\\.* See `a_b`", parse_mode="MarkdownV2", reply_to_message_id=7)
    write("sent", [sent.text, sent.chat.id, sent.chat.type, [one.type for one in sent.entities]])
    really = partial(bot.edit_message_text, "_Really_ done", 42, sent.message_id, parse_mode="MarkdownV2")
    write("edited", [getattr(await really(), "text", None)])
    await refused("same again", really())
    await refused("bad markup", bot.send_message(42, "a.b", parse_mode="MarkdownV2"))
    await refused("too long", bot.send_message(42, "x" * 5000))
    document = await bot.send_document(42, b"\x00\r\n--x\r\n\xff", filename="a b.bin", caption="A file")
    assert document.document is not None
    write("document", [document.caption, document.document.file_name, document.document.file_size])
    back = await (await bot.get_file(document.document.file_id)).download_as_bytearray()
    write("downloaded", bytes(back).hex())
    photo = await bot.send_photo(42, b"\x89PNG", caption="Look")
    write("photo", [photo.caption, len(photo.photo) > 0])
    voice = await bot.send_voice(42, b"OggS")
    write("voice", voice.voice is not None)
    write("typing", await bot.send_chat_action(42, "typing"))
    write("deleted", await bot.delete_message(42, sent.message_id))
    await refused("blocked", bot.send_message(43, "hello"))
    await refused("flood", bot.send_message(42, "hello"))
    await refused("hung up", bot.send_message(42, "hello"))
    write("hook", (await bot.get_webhook_info()).pending_update_count)


async def refused(name: str, call: Any) -> None:
    try:
        write(name, f"not refused: {await call}")
    except RetryAfter as error:
        write(name, ["RetryAfter", float(error.retry_after)])  # type: ignore[arg-type]
    except (BadRequest, Forbidden, Conflict, NetworkError) as error:
        write(name, [type(error).__name__, error.message])


async def on_message(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
    message = update.effective_message
    assert message is not None
    write("heard", [message.chat.type, message.text or message.caption, update.edited_message is not None])
    if message.text == "bye":
        context.application.stop_running()
        return
    button = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="yes")]])
    await message.reply_text(f"You said: {message.text}", reply_markup=button)


async def on_press(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
    query = update.callback_query
    assert query is not None
    write("pressed", [query.data, query.from_user.id])
    await query.answer()
    await query.edit_message_text("Thank you")


def main(base_url: str, token: str) -> None:
    async def ask() -> None:
        bot = Bot(token, f"{base_url}/bot", f"{base_url}/file/bot", request=HTTPXRequest())
        await bot.initialize()
        await make_calls(bot)
        await bot.shutdown()
        try:
            await Bot(token[:-1], f"{base_url}/bot").initialize()
        except InvalidToken as error:
            write("token", error.message)

    asyncio.run(ask())
    asyncio.set_event_loop(asyncio.new_event_loop())
    application = (
        Application.builder()
        .token(token)
        .base_url(f"{base_url}/bot")
        .base_file_url(f"{base_url}/file/bot")
        .build()
    )
    application.add_handler(MessageHandler(filters.ALL, on_message))
    application.add_handler(CallbackQueryHandler(on_press))
    application.run_polling(timeout=5, stop_signals=None)


if __name__ == "__main__":
    main(*sys.argv[1:3])
