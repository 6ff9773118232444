"""The ClientApp of every site: passes a message's bytes through the site's door and replies with the answer.

It imports Flower and the standard library only, and holds neither data nor keys.
"""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from unalike.federation.transport.flower.door import DoorError, ask
from unalike.federation.transport.flower.packing import REFUSAL, pack, unpack

app = ClientApp()


@app.query()
def pass_on(message: Message, context: Context) -> Message:
    """One message, one answer; where there is none, a reply that says why."""
    try:
        return Message(
            pack(ask(str(context.node_config.get("door", "")), unpack(message.content))), reply_to=message
        )
    except (DoorError, ValueError) as error:
        reason = ConfigRecord({"reason": str(error)})
        return Message(RecordDict({REFUSAL: reason}), reply_to=message)
