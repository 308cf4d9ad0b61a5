"""Who is meant by the names of a playbook's texts, as the run file tells."""

from collections.abc import Mapping

from oncall.playbook.model import Action
from oncall.run.model import Contacts


def contact_texts(contacts: Contacts) -> dict[str, str]:
    """Field → whom to call; the second line stands in for those that the run file does not name."""
    second = contacts.second_line
    return {
        "second_line": second or "the second line",
        "hardware": contacts.hardware or second or "those who own the hardware",
        "data": contacts.data or second or "the owner of the data",
        "numerics": contacts.numerics or second or "the owner of the model",
    }


def said(action: Action, texts: Mapping[str, str]) -> str:
    """What an action says, and whom to ask where a person has to decide."""
    say = action.say.format_map(texts)
    return f"{say} Ask {texts[action.ask]}." if action.ask else say
