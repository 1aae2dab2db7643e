"""A trial of a platform, made of its simulator."""

from __future__ import annotations

from ..platform.contract import Adapter
from ..platform.trial import Trial, TrialMessage
from .shown_chats import Shown
from .stage import Stage


def trial_of(adapter: Adapter, stage: Stage, *, person: str = "42") -> Trial:
    """Return a trial in which the user is this person of the stage."""

    def shown() -> list[TrialMessage]:
        chat = stage.chat(person)
        messages = [_message(one) for one in chat.messages]
        if chat.draft is not None:
            name = f"draft {chat.draft.number}"
            messages.append(TrialMessage(id=name, text=chat.draft.text, is_draft=True))
        return messages

    return Trial(
        adapter=adapter,
        person=person,
        say=lambda text: stage.post(text, chat=person),
        press=lambda label: stage.deliver(stage.press(label, chat=person)),
        stop=lambda: stage.deliver(stage.stop_draft(chat=person)),
        shown=shown,
        changed=stage.changed.wait,
    )


def _message(shown: Shown) -> TrialMessage:
    lines = [shown.text, *(f"({file.kind}: {file.name})" for file in shown.attachments)]
    labels = tuple(button.label for button in shown.buttons)
    return TrialMessage(id=shown.message_id, text="\n".join(filter(None, lines)), buttons=labels)
