"""Which question a process of a site gets, and how long a site counts as silent; without a port."""

import asyncio

import pytest

from unalike.federation.transport.https.desk import PIECE, Desk, Question, Refusal, Request, _length


@pytest.fixture
def told():
    return []


def ask(desk, told, party="a", data=b"question"):
    question = Question(data, lambda answer, why: told.append((answer, why)))
    desk.ask({party: question})
    return question


def test_a_question_is_for_the_process_that_took_it_until_it_is_answered(told):
    desk = Desk(100)
    assert desk._fresh("a", "one", "") is None
    question = ask(desk, told)
    assert desk._fresh("a", "one", "") is question
    question.taken_by = "one"
    assert desk._fresh("a", "one", "") is question  # it was cut off before it was whole
    assert desk._fresh("a", "one", question.id) is None
    assert desk._fresh("b", "one", "") is None
    assert told == []
    assert desk._fresh("a", "two", "") is None
    assert told == [(None, "was started again before it answered, or is here twice")]
    assert not desk.questions


def test_only_the_question_that_is_meant_is_withdrawn(told):
    desk = Desk(100)
    first, second = ask(desk, told), ask(desk, told)
    assert first.id != second.id
    desk.withdraw({"a": first})
    assert desk.questions == {"a": second}
    desk.withdraw({"a": second, "b": first})
    assert desk.questions == {}
    assert told == []


def test_silence_is_counted_from_the_last_request_and_is_none_while_a_site_waits():
    async def look():
        desk = Desk(100)
        assert desk.silence("a") == float("inf")
        desk._hear("a")
        await asyncio.sleep(0.05)
        assert 0.04 < desk.silence("a") < 5
        desk._waiting["a"] += 1
        assert desk.silence("a") == 0

    asyncio.run(look())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"content-length", b"5"), (b"content-length", b"5")], 400),
        ([(b"transfer-encoding", b"chunked")], 400),
        ([(b"expect", b"100-continue")], 400),
        ([(b"upgrade", b"h2c")], 400),
        ([(b"content-length", b"%d" % (PIECE + 1))], 413),
        ([(b"x", b"y" * 1000)], 431),
        ([(b"x", b"")] * 300, 431),
    ],
)
def test_headers_that_no_site_sends(headers, status):
    with pytest.raises(Refusal) as refusal:
        _length(headers, 1000)
    assert refusal.value.status == status
    assert refusal.value.headers[b"connection"] == b"close"


def test_the_length_of_a_body():
    assert _length([], 1000) == 0
    assert _length([(b"host", b"x"), (b"content-length", b"%d" % PIECE)], 1000) == PIECE


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e3", " 1", "²", "١", "1" * 16, "0x1"])
def test_what_is_no_number(text):
    request = Request(None, None, None, 0, {"from": text})
    with pytest.raises(Refusal, match="from is not a number"):
        request.number("from", 10)
    with pytest.raises(Refusal, match="of is not a number"):
        request.number("of", 10)


def test_numbers():
    request = Request(None, None, None, 0, {"from": "10"})
    assert request.number("from", 10) == 10
    with pytest.raises(Refusal, match="more than 9"):
        request.number("from", 9)
