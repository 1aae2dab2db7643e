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
    return "→ Closed without an answer."


def question_closed() -> str:
    return "This question is closed, or was asked of somebody else."


def approval_question() -> str:
    return "⚠ May I do this?"


def place_heading(kind: str) -> str:
    return "In the directory:" if kind == "command" else "In the file:"


def content_heading(kind: str) -> str:
    return "The command:" if kind == "command" else "The change:"


def grants_heading() -> str:
    return "It gets, beyond its sandbox:"


def shown_above(kind: str, parts: int) -> str:
    what = "command" if kind == "command" else "change"
    return f"The {what} is in the {messages(parts)} above, from its first character to its last."


def part_heading(number: int, parts: int) -> str:
    return f"⚠ Part {number} of {parts} of something that I ask you to allow:"


def end_of_part() -> str:
    return "(The next message continues with the next character.)"


def code_points_note() -> str:
    return "⟨U+…⟩ stands for a character that is invisible, or looks like another one."


def reason_heading() -> str:
    return "Reason:"


def answer_yes_or_no(within: float) -> str:
    return (
        "Answer yes or no, or /approve session, /approve always. "
        f"Without an answer in {duration(within)} it is not done."
    )


def cannot_be_shown(why: str) -> str:
    return f"⚠ I need your approval, but cannot show the request here exactly: {why}. It was not done."


def approval_expired(seconds: float) -> str:
    return (
        f"⌛ No answer came in {duration(seconds)}, so it was not done. Ask for it again to be asked again."
    )


def worked(seconds: float) -> str:
    return f"⏳ Worked for {duration(seconds)}."


def database_damaged(copy: str) -> str:
    return (
        f"⚠ The database was damaged. It was put aside as {copy}, and a new one was created: earlier "
        "conversations are not in it. Keep that file for a repair or a comparison, or delete it."
    )


def inactive(seconds: float, limit: float) -> str:
    return (
        f"⚠ Nothing has happened for {duration(seconds)}. After {duration(limit)} this turn is ended; "
        "agent.gateway_timeout in config.yaml sets the limit."
    )


def timed_out(seconds: float) -> str:
    return (
        f"⚠ Nothing happened for {duration(seconds)}, so this turn was ended. Send a message to continue; "
        "agent.gateway_timeout in config.yaml sets the limit."
    )


def no_answer() -> str:
    return "⚠ The agent ended its turn without an answer. Send the message again to try once more."


def failed(error: BaseException, redact: Redact) -> str:
    """Return the text about an error of an agent, with secrets masked: it is shown in a chat."""
    text = redact(error_text(error))
    if not isinstance(error, GatewayError):
        said = f"{type(error).__name__}: {text[:500]}".rstrip(": ")
        text = f"⚠ The agent failed ({said}). Send the message again to try once more."
    return text


def command_failed(command: str, error: GatewayError) -> str:
    return f"⚠ /{command} could not be done ({error}) Give the command again."


def cut_off(text: str) -> str:
    return f"{text}\n\n(interrupted)"


def waits_for_restart() -> str:
    return "⏳ The gateway is going down. Your message is kept; the answer comes when it is back."


def waits_for_drain() -> str:
    return (
        "⏳ The gateway begins nothing new for now. Your message is kept; the answer comes when it goes on."
    )


def interrupting() -> str:
    return "⚡ I stop my current work for this message."


def not_now(why: str) -> str:
    return f"⏳ I cannot be interrupted now ({why}). Your message is next; /stop ends everything."


def queued() -> str:
    return "⏳ I am still working. Your message waits for its turn."


def steered() -> str:
    return "⏩ I include this in my current work, or answer it right afterwards."


def crowded_out(most: int) -> str:
    return f"⚠ {most} messages are waiting here already, so this one was not kept. Send it again later."


def waits_for_room(most: int) -> str:
    others = "Another turn is running" if most == 1 else f"{most} turns are running"
    return f"⏳ {others}, which is the limit now. Yours begins as soon as one has ended."


def stopped(was_running: bool, dropped: int) -> str:
    if not was_running and not dropped:
        return "Nothing is running here, and no message waits."
    lost = f" {messages(dropped)} that waited will not be answered." if dropped else ""
    return f"⚡ Stopped.{lost} The session goes on with your next message."


def nothing_to_take_back() -> str:
    return "This session has nothing that could be taken back."


def taken_back(said: str) -> str:
    return f"↩ Forgotten: {said[:200] or 'a message without words'}"


def still_waits() -> str:
    return "⏳ Your last message still waits for its turn. You need not send it again."


def needs_text(name: str) -> str:
    return f"The command needs a text: /{name} TEXT"


def works_in_background() -> str:
    return "🧵 I work on this in the background. The answer comes here."


def may_not_approve(platform: str) -> str:
    return (
        "Only an admin may answer this, or, if no admins are listed, the person whose turn asks. "
        f"platforms.{platform}.allow_admin_from in config.yaml lists the admins."
    )


def decided(decision: str, answered: int) -> str:
    how_many = f" {answered} requests" if answered > 1 else ""
    if decision == "deny":
        return f"Refused{how_many}."
    return f"Allowed{how_many}{'' if decision == 'once' else f' ({decision})'}."


def permissions_removed(taken_back: int) -> str:
    if not taken_back:
        return "No permission was stored for always."
    kinds = counted(taken_back, "kind")
    return f"I ask again from now on: {kinds} of harm had been allowed for always."


def no_approval_open() -> str:
    return "No approval is open here. If there was one, it was closed before your answer."


def ending_already(running: int) -> str:
    return f"♻ The gateway is going down already; {turns(running)} still running."


def home_channel_set() -> str:
    return "🏠 From now on this chat gets a notice when the gateway goes down, and when it is back."


def no_notices_here() -> str:
    return "This place cannot get notices. Send /sethome in a chat."


def model(config: ModelConfig, about: str, asked: str = "") -> str:
    """Return which model answers; `asked` is another model that the command named."""
    name, provider = config.name or "the usual one", config.provider
    about = about or f"The model is {name}, from {provider}."
    if asked:
        unchanged = f"The model is not changed to {asked[:200]!r}: no command does that."
        return f"{unchanged} Set model.name and model.provider in config.yaml, then send /restart. {about}"
    return f"{about} model.name and model.provider in config.yaml set that."


def nothing_to_compress() -> str:
    return "This session has nothing that I could compress."


def not_while_held() -> str:
    return "⏳ The gateway begins nothing new for now. Try again when it goes on."


def compressed(before: int, after: int, trouble: str) -> str:
    if trouble:
        return f"⚠ The summary could not be written. {trouble}"
    if after >= before:
        return "This session has nothing that could be made shorter."
    return (
        f"🗜 The model now gets a shorter form of this session: about {after:,} tokens instead of "
        f"{before:,}. The transcript is unchanged."
    )


def session_suspended() -> str:
    return (
        "⚠ This session was interrupted several times in a row, so it is not resumed automatically. "
        "Your next message begins a new session."
    )


def not_resumed() -> str:
    return (
        "⚠ I was interrupted again before I could resume this, so I do not try again automatically. "
        "Send /retry, or a new message."
    )


def new_session(dropped: int) -> str:
    lost = f" {messages(dropped)} that waited will not be answered." if dropped else ""
    return f"✨ A new session begins with your next message.{lost}"


def restart_asked(running: int, grace: float) -> str:
    if running and grace:
        return f"♻ Restarting. {turns(running)} running and may take {duration(grace)} to finish."
    return "♻ Restarting."


def restart_is_for_the_host() -> str:
    return "This gateway is part of another program and cannot restart it. Restart that program instead."


def restarted() -> str:
    return "♻ Restarted. The session goes on."


def gateway_back() -> str:
    return "♻ Gateway online: back and ready."


def back_after_crash() -> str:
    return "⚠ I was down without a stop (a kill, a crash or no power), and am back. What was cut goes on."


def pairing_code(code: str, seconds: float) -> str:
    return (
        "🔑 I do not know you yet, and have not kept your message. Ask the owner of this gateway to enter\n"
        f"hermes-trio pairing approve {code}\n"
        f"there, then write again. The code is valid for {duration(seconds)}; earlier codes are not valid."
    )


def only_admins(name: str, platform: str) -> str:
    return f"/{name} is for admins; platforms.{platform}.allow_admin_from in config.yaml lists them."


def unknown_command(name: str) -> str:
    return f"/{name} is no command I know; /help lists them. If it is no command, leave out the slash."


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
