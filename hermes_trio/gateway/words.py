"""What the gateway says to people, in one place."""

from __future__ import annotations


def still_working(seconds: float) -> str:
    return f"⏳ Still working ({_duration(seconds)})."


def worked(seconds: float) -> str:
    return f"⏳ Worked for {_duration(seconds)}."


def silent(seconds: float, limit: float) -> str:
    return (
        f"⚠ Nothing has happened for {_duration(seconds)}. After {_duration(limit)} this turn is ended; "
        "agent.gateway_timeout in config.yaml sets that."
    )


def timed_out(seconds: float) -> str:
    return (
        f"⚠ Nothing happened for {_duration(seconds)}, so this turn was ended. Send a message to go on; "
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


def stopped(was_running: bool) -> str:
    return "⚡ Stopped. The session goes on with your next message." if was_running else "Nothing is running."


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


def unknown_command(name: str) -> str:
    return f"/{name} is no command I know. /help lists them."


def help_text() -> str:
    return "/stop ends what is running\n/new begins a new session\n/restart restarts the gateway\n/help"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
