"""A grid of Flower that keeps messages in memory, made of Flower's public classes only."""

from itertools import count

from flwr.app import Message, Metadata

from unalike.federation.transport.flower.packing import pack, unpack

_names = count(1)


def made(content, node, name, source=1, answers=""):
    """A message as it is once Flower has numbered it."""
    kind = {"group_id": "", "created_at": 0.0, "ttl": 1e12, "message_type": "query"}
    about = Metadata(
        run_id=7, message_id=name, src_node_id=source, dst_node_id=node, reply_to_message_id=answers, **kind
    )
    return Message(content=content, metadata=about)


def question(content, node, kind, ttl):
    """Takes the place of Flower's ``Message``, which can be made in its own processes only."""
    assert kind == "query"
    assert ttl > 0
    return made(content, node, f"m{next(_names)}")


class Grid:
    """``delay`` says after how many polls a node's answer is there."""

    def __init__(self, answer=lambda node, data: pack(data[::-1]), delay=None, nodes=(3, 1, 2)):
        self.answer, self.delay, self.nodes = answer, delay or {}, nodes
        self.waiting, self.asked_for, self.polls = {}, [], 0

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        names = []
        for message in messages:
            name = message.metadata.message_id
            self.waiting[name] = (message, self.polls + self.delay.get(message.metadata.dst_node_id, 0))
            names.append(name)
        return names

    def pull_messages(self, names):
        self.polls += 1
        self.asked_for.append(set(names))
        due = [name for name in names if name in self.waiting and self.waiting[name][1] < self.polls]
        return [self.reply(self.waiting.pop(name)[0]) for name in due]

    def reply(self, message):
        return Message(self.answer(message.metadata.dst_node_id, unpack(message.content)), reply_to=message)
