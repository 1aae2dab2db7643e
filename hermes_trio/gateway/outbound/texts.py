"""The texts of the gateway for people, in one place. Pure functions that return text."""

from __future__ import annotations

from ...base.errors import GatewayError, error_text
from ...base.plural import counted
from ...config.schema import ModelConfig
from ...masking.redaction import Redact


def still_working(seconds: float) -> str:
    return f"⏳ Still working ({duration(seconds)})."


def answered(answer: str) -> str:
    return f"→ {answer}"


def not_answered() -> str:
    return "→ This was not answered, and is over."


def pressed_in_vain() -> str:
    return "That was asked of somebody else, or is over."


def may_i() -> str:
    return "⚠ May I do this?"


def where_it_would_be(kind: str) -> str:
    return "In the directory:" if kind == "command" else "In the file:"


def what_it_would_be(kind: str) -> str:
    return "The command:" if kind == "command" else "The change:"


def stands_above(kind: str, parts: int) -> str:
    what = "command" if kind == "command" else "change"
    return f"The {what} stands in the {messages(parts)} above, from its first character to its last."


def part_of_what_is_asked(number: int, parts: int) -> str:
    return f"⚠ Part {number} of {parts} of something that I ask you to allow:"


def end_of_part() -> str:
    return "(The next message goes on with the next character.)"


def has_unseen_characters() -> str:
    return "⟨U+…⟩ stands for a character that cannot be seen, or not be told from another."


def because() -> str:
    return "Why I ask:"


def answer_yes_or_no(within: float) -> str:
    return (
        "Answer yes or no, or /approve session, /approve always. "
        f"Without an answer in {duration(within)} it is not done."
    )


def cannot_be_shown(why: str) -> str:
    return f"⚠ I wanted to ask you something, but it cannot be shown here as it is: {why}. It was not done."


def worked(seconds: float) -> str:
    return f"⏳ Worked for {duration(seconds)}."


def database_damaged(copy: str) -> str:
    return (
        f"⚠ The database was damaged. It was put aside as {copy}, and a fresh one was begun: earlier "
        "conversations are not there. Keep that file for a repair or a backup to compare, or delete it."
    )


def silent(seconds: float, limit: float) -> str:
    return (
        f"⚠ Nothing has happened for {duration(seconds)}. After {duration(limit)} this turn is ended; "
        "agent.gateway_timeout in config.yaml sets that."
    )


def timed_out(seconds: float) -> str:
    return (
        f"⚠ Nothing happened for {duration(seconds)}, so this turn was ended. Send a message to go on; "
        "agent.gateway_timeout in config.yaml sets the limit."
    )


def nothing_said() -> str:
    return "⚠ The agent ended its turn without an answer. Send the message again to try once more."


def failed(error: BaseException, redact: Redact) -> str:
    """Return the text about an error of an agent, with secrets masked: it is shown in a chat."""
    text = redact(error_text(error))
    if not isinstance(error, GatewayError):
        said = f"{type(error).__name__}: {text[:500]}".rstrip(": ")
        text = f"⚠ The agent failed ({said}). Send the message again to try once more."
    return text


def not_obeyed(command: str, error: GatewayError) -> str:
    return f"⚠ /{command} could not be done ({error}) Give the command again."


def cut_off(text: str) -> str:
    return f"{text}\n\n(interrupted)"


def after_restart() -> str:
    return "⏳ The gateway is going down. Your message is kept; the answer comes when it is back."


def after_drain() -> str:
    return (
        "⏳ The gateway begins nothing new for now. Your message is kept; the answer comes when it goes on."
    )


def interrupting() -> str:
    return "⚡ I stop what I am doing and turn to this."


def not_now(why: str) -> str:
    return f"⏳ I cannot be interrupted at this moment ({why}). This comes next; /stop ends everything."


def queued() -> str:
    return "⏳ I am still working. This waits for its turn."


def steered() -> str:
    return "⏩ I take this along in what I am doing, or turn to it right afterwards."


def crowded_out(most: int) -> str:
    return f"⚠ {most} messages are waiting here already, so this one was not kept. Send it again later."


def waits_for_room(most: int) -> str:
    others = "Another turn is running" if most == 1 else f"{most} turns are running"
    return f"⏳ {others}, and no more may at a time. Yours begins as soon as there is room."


def stopped(was_running: bool, dropped: int) -> str:
    if not was_running and not dropped:
        return "Nothing is running here, and nothing waits."
    lost = f" {messages(dropped)} that waited will not be answered." if dropped else ""
    return f"⚡ Stopped.{lost} The session goes on with your next message."


def nothing_to_take_back() -> str:
    return "There is nothing in this session that could be taken back."


def taken_back(said: str) -> str:
    return f"↩ Forgotten: {said[:200] or 'a message without words'}"


def waits_still() -> str:
    return "⏳ Your last message still waits for its turn; it need not be sent again."


def needs_text(name: str) -> str:
    return f"Write behind it what it is about: /{name} TEXT"


def works_beside() -> str:
    return "🧵 I work on that beside this conversation. The answer comes here."


def may_not_approve(platform: str) -> str:
    return (
        "That is for admins to answer, or, where people are listed and no admins, for the person whose turn "
        f"asks. platforms.{platform}.allow_admin_from in config.yaml names admins."
    )


def decided(decision: str, answered: int) -> str:
    how_many = f" {answered} requests" if answered > 1 else ""
    if decision == "deny":
        return f"Refused{how_many}."
    return f"Allowed{how_many}{'' if decision == 'once' else f' ({decision})'}."


def asks_again(taken_back: int) -> str:
    if not taken_back:
        return "Nothing was allowed for always."
    kinds = counted(taken_back, "kind")
    return f"I ask again from now on: {kinds} of harm had been allowed for always."


def nothing_asked() -> str:
    return "Nothing waits for a yes or a no here. If something did, it came to an end before your answer."


def ending_already(running: int) -> str:
    return f"♻ The gateway is going down already; {turns(running)} still running."


def home_is_here() -> str:
    return "🏠 From now on this chat is told when the gateway goes down, and when a restart is over."


def no_chat_here() -> str:
    return "This is no chat that could be told. Say /sethome in one that is."


def model(config: ModelConfig, about: str, asked: str = "") -> str:
    """Return which model answers; `asked` is another model that the command named."""
    name, provider = config.name or "the usual one", config.provider
    about = about or f"The model is {name}, from {provider}."
    if asked:
        kept = f"The model is not changed to {asked[:200]!r}: no command does that."
        return f"{kept} Set model.name and model.provider in config.yaml, then send /restart. {about}"
    return f"{about} model.name and model.provider in config.yaml set that."


def nothing_to_compress() -> str:
    return "There is nothing here that I could compress."


def not_while_held() -> str:
    return "⏳ The gateway begins nothing now. Try again when it goes on."


def compressed(before: int, after: int, trouble: str) -> str:
    if trouble:
        return f"⚠ The summary could not be written. {trouble}"
    if after >= before:
        return "There is nothing in this session that could be made shorter."
    return (
        f"🗜 What the model is sent of this session is shorter now: about {after:,} tokens in place "
        f"of {before:,}. The transcript is as it was."
    )


def stuck() -> str:
    return (
        "⚠ This session was interrupted several times in a row, so it is not taken up again by itself. "
        "Your next message begins a new session."
    )


def left_alone() -> str:
    return (
        "⚠ I was interrupted again before I had taken this up, so I do not try once more by myself. "
        "/retry does, or say what comes next."
    )


def new_session(dropped: int) -> str:
    lost = f" {messages(dropped)} that waited will not be answered." if dropped else ""
    return f"✨ A new session begins with your next message.{lost}"


def restart_asked(running: int, grace: float) -> str:
    if running and grace:
        return f"♻ Restarting. {turns(running)} running and may take {duration(grace)} to finish."
    return "♻ Restarting."


def restart_is_for_the_host() -> str:
    return "This gateway is a part of another program, and cannot restart it. Whoever runs that program can."


def restarted() -> str:
    return "♻ Restarted. The session goes on."


def back() -> str:
    return "♻ Gateway online: back and ready."


def pairing_code(code: str, seconds: float) -> str:
    return (
        "🔑 I do not know you yet, and have not kept your message. Ask whoever runs this gateway to enter\n"
        f"hermes-trio pairing approve {code}\n"
        f"there, then write again. The code counts for {duration(seconds)}, and none before it any more."
    )


def only_admins(name: str, platform: str) -> str:
    return f"/{name} is for admins; platforms.{platform}.allow_admin_from in config.yaml lists them."


def unknown_command(name: str) -> str:
    return f"/{name} is no command I know; /help lists them. If it was not meant as one, leave out the slash."


def process_ended(command: str, code: int | None, id: str = "", tail: str = "") -> str:
    how = "ended" if code is None else f"ended with exit code {code}"
    if not id:
        return f"⚙ {command[:200]} {how}."
    return f"Background process {id} {how}. Its command: {command[:500]}\nThe end of its output:\n{tail}"


def duration(seconds: float) -> str:
    """Return a time span in words."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def messages(count: int) -> str:
    """Return a number of messages in words."""
    return counted(count, "message")


def turns(count: int) -> str:
    """Return a number of turns in words, with the verb."""
    return f"{counted(count, 'turn')} {'is' if count == 1 else 'are'}"
