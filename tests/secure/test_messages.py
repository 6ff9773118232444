"""Messages as bytes: there and back, and whatever else may arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.secure.sessions import SERVER, Session, Step, take, vectors
from unalike.secure import server
from unalike.secure.errors import ProtocolError
from unalike.secure.messages import Message

MESSAGES = st.builds(
    Message,
    st.sampled_from(list(Step)),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=32, max_size=32),
    st.lists(st.binary(max_size=50), max_size=5).map(tuple),
    st.binary(min_size=64, max_size=64),
)


@given(MESSAGES)
@settings(max_examples=100, deadline=None)
def test_there_and_back(message):
    assert Message.from_bytes(message.to_bytes()) == message


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_random_bytes(raw):
    with pytest.raises(ProtocolError):
        Message.from_bytes(raw)


@given(st.data(), MESSAGES)
@settings(max_examples=200, deadline=None)
def test_mutated_bytes_are_another_message_or_none(data, message):
    raw = mutated(data, message.to_bytes())
    try:
        read = Message.from_bytes(raw)
    except ProtocolError:
        return
    assert read.to_bytes() == raw  # one way to write a message


def mutated(data, raw):
    """Some bytes changed, cut out or put in."""
    at = data.draw(st.integers(0, len(raw)))
    cut = data.draw(st.integers(0, 8))
    return raw[:at] + data.draw(st.binary(max_size=8)) + raw[at + cut :]


def fault(step, *arguments):
    """Whom a step blames."""
    try:
        step(*arguments)
    except ProtocolError as error:
        return error.party
    return "nobody"


@pytest.fixture(scope="module")
def recorded():
    """A session of every mode before each step: the server's state, the parties' and all messages."""
    states = []
    for protect in ("none", "fhe+masks", "masks"):
        session = Session(vectors(3), protect)
        while session.server.awaits is not None:
            before, outbox = session.server, dict(session.outbox)
            session.ask_server()
            states.append((before, outbox, dict(session.parties), dict(session.answers)))
            session.ask_parties()
    return states


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_steps_with_mutated_messages_end_in_a_protocol_error_that_names_the_sender(recorded, data):
    """Without signatures ("none") mutations get further; even so, nothing but a ProtocolError comes out."""
    central, outbox, parties, answers = data.draw(st.sampled_from(recorded))
    raw = mutated(data, outbox[1])
    unsigned = not central.policy.identities
    blamed = fault(server.step, central, [*((i, m) for i, m in outbox.items() if i != 1), (1, raw)])
    # An unsigned vector may be changed so that only the sum is wrong: then some party is to blame.
    assert blamed == 1 or (unsigned and blamed in (None, "nobody")) or (blamed == "nobody" and raw == outbox[1])
    if not answers:  # the last step of "masks"
        return
    raw = mutated(data, answers[1])
    blamed = fault(take, parties[1], raw)
    assert blamed in (SERVER, None) or (blamed == "nobody" and (unsigned or raw == answers[1]))
