"""What the gateway says to people, in one place."""

from __future__ import annotations

from ..config import ModelConfig


def still_working(seconds: float) -> str:
    return f"⏳ Still working ({duration(seconds)})."


def worked(seconds: float) -> str:
    return f"⏳ Worked for {duration(seconds)}."


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


def failed(error: Exception) -> str:
    return f"⚠ The agent failed ({type(error).__name__}: {error}). Send the message again to try once more."


def cut_off(text: str) -> str:
    return f"{text}\n\n(interrupted)"


def after_restart() -> str:
    return "⏳ The gateway is going down. Your message is kept; the answer comes when it is back."


def after_drain() -> str:
    return "⏳ The gateway begins nothing new for the moment. Your message is kept and will be answered."


def interrupting() -> str:
    return "⚡ I stop what I am doing and turn to this."


def not_now(why: str) -> str:
    return f"⏳ In this moment I cannot be interrupted ({why}). This comes next; /stop ends everything."


def queued() -> str:
    return "⏳ This waits for its turn."


def steered() -> str:
    return "⏩ I take this along in what I am doing."


def crowded_out(most: int) -> str:
    return f"⚠ {most} messages are waiting here already. This one was not taken; send it again later."


def waits_for_room(most: int) -> str:
    return f"⏳ {most} turns are running, and that is how many may. Yours begins as soon as one ends."


def stopped(was_running: bool, dropped: int) -> str:
    if not was_running and not dropped:
        return "Nothing is running."
    lost = f" {dropped} waiting message(s) are dropped." if dropped else ""
    return f"⚡ Stopped.{lost} The session goes on with your next message."


def nothing_to_take_back() -> str:
    return "There is nothing here to take back."


def taken_back(said: str) -> str:
    return f"↩ Forgotten, with its answer: {said[:200]}"


def needs_text(name: str) -> str:
    return f"Write what is to be done behind it: /{name} TEXT"


def works_beside() -> str:
    return "🧵 I work on that beside this conversation; the result comes here."


def may_not_approve(platform: str) -> str:
    return f"Only admins may answer that; platforms.{platform}.allow_admin_from in config.yaml lists them."


def decided(decision: str) -> str:
    return "Refused." if decision == "deny" else f"Allowed ({decision})."


def nothing_asked() -> str:
    return "Nothing is waiting for a yes. If something was, it came to an end before your answer."


def ending_already(running: int) -> str:
    return f"♻ The gateway is going down already; {running} turn(s) are still running."


def home_is_here() -> str:
    return "🏠 From now on this chat hears what is addressed to nobody in particular."


def model(config: ModelConfig) -> str:
    name, provider = config.name or "the usual one", config.provider
    return f"The model: {name} of {provider}. model.name and model.provider in config.yaml set that."


def nothing_to_compress() -> str:
    return "The agent that is running here keeps nothing that could be compressed."


def stuck() -> str:
    return (
        "⚠ This session was interrupted several times in a row, so it is not taken up again by itself. "
        "Your next message begins a new session."
    )


def new_session() -> str:
    return "✨ A new session begins with your next message."


def restart_asked(running: int) -> str:
    return f"♻ Restarting; {running} running turn(s) may finish first." if running else "♻ Restarting."


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
    return f"/{name} is no command I know. /help lists them."


def duration(seconds: float) -> str:
    """A time span as people say it."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
