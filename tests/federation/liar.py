"""A server that breaks the rules of hidden sums, perhaps with sites in league; all others are ``Site`` objects."""

import itertools
from contextlib import suppress

import numpy as np

from tests.federation.inside import server_public
from tests.secure.bare import unmasked
from unalike.federation.envelope import peek
from unalike.federation.speaker import Speaker, Stopped
from unalike.federation.summing import question
from unalike.federation.vault import version_name
from unalike.federation.work import SiteWork
from unalike.secure import keys, party, server
from unalike.secure.crypto import bfv, shamir
from unalike.secure.errors import SERVER
from unalike.secure.messages import EVERYONE, Step, pack_numbers, steps, write
from unalike.secure.messages import Message as Said
from unalike.secure.policy import Policy, new_session

INCARNATIONS = itertools.count(100)
OWN = ("number", "sender", "receiver", "plan")


def record_grids(monkeypatch):
    """What each site adds in the end, by the number of the site: to compare what is read with."""
    found, real = {}, SiteWork.grid

    def grid(self, message, vault):
        occasion, made = real(self, message, vault)
        found[self.number] = made
        return occasion, made

    monkeypatch.setattr(SiteWork, "grid", grid)
    return found


def ready(world, round=1):
    """Play until sites are about to be asked for their vectors of a round; what each is asked, and the terms."""
    asked, terms = {}, []

    def before(node, raw):
        message = peek(raw)
        if message.kind != "sum":
            return raw
        if message.header["step"] == 0:
            terms.append(Policy.from_bytes(message.body))
        if message.header.get("round") != round:
            return raw
        header = {key: value for key, value in message.header.items() if key not in OWN}
        asked[world.transport.sites[node].name] = header, message.body[header["protocol"] :]
        return None

    world.transport.before = before
    with suppress(Stopped):
        world.serve(stopped=lambda: bool(asked))
    world.transport.before = lambda node, raw: raw
    return asked, terms[-1]


class Liar:
    """One session of a server that chooses its terms and what it tells to whom. Colluders do all it wants."""

    def __init__(self, world, asked, usual, colluders=(), **terms):
        self.world, self.asked = world, asked
        place, count = world.folder, next(INCARNATIONS)
        self.voice = Speaker(
            world.plan, world.transport, place.signer(), place.roster(world.plan), count, world.said.append
        )
        self.names = sorted(terms.pop("parties", world.plan.parties))
        self.signers = {name: _site(world, name).signer for name in colluders}
        self.honest = [name for name in self.names if name not in colluders]
        fields = {
            "session": new_session(),
            "protect": usual.protect,
            "parties": len(self.names),
            "length": usual.length,
            "bound": usual.bound,
            "threshold": usual.threshold,
            "identities": (*(self.voice.roster[name] for name in self.names), server_public(world)),
            "fingerprint": usual.fingerprint,
            "bits": usual.bits,
            "question": question(*next(iter(asked.values()))),
        }
        self.policy = Policy(**fields | terms)
        self.order = steps(self.policy)
        self.states, self.vectors = {}, {}

    def trip(self, number, raws, vector=False):
        """Send each site its bytes; what comes back, of those who do not refuse."""
        out = {}
        for name, raw in raws.items():
            header, body = self.asked[name] if vector else ({}, b"")
            about = {"kind": "sum", "step": number, "session": self.policy.session.hex(), "protocol": len(raw)}
            version = {"version": version_name(header["round"], 0, self.voice.incarnation)} if vector else {}
            out[name] = {**header, **about, **version}, raw + body
        return {name: message.body for name, message in self.voice.ask(out, 10.0)}

    def gather(self):
        """All steps until the vectors are there, by the rules; colluders send zeros."""
        central = server.start(self.policy, context=self._public(), signer=self.voice.signer)
        said = dict.fromkeys(range(len(self.names)), self.policy.to_bytes())
        for number, step in enumerate(self.order[: self.order.index(Step.VECTOR) + 1]):
            got = self.trip(number, {n: said[self.number(n)] for n in self.honest}, step is Step.VECTOR)
            for name, signer in self.signers.items():
                got[name] = self._colluder(name, signer, said[self.number(name)], step)
            received = [(self.number(name), raw) for name, raw in got.items()]
            if step is Step.VECTOR:
                self.vectors = {number: Said.from_bytes(raw).parts[0] for number, raw in received}
            central, answers = server.step(central, received)
            said = dict(answers)
        self.central = central
        return self

    def _colluder(self, name, signer, said, step):
        if step is Step.HELLO:
            self.states[name], hello = party.start(self.policy, self.number(name), signer=signer)
            return hello
        vector = np.zeros(self.policy.length, np.int64) if step is Step.VECTOR else None
        self.states[name], answer = party.step(self.states[name], said, vector)
        return answer

    def _public(self):
        if not self.policy.encrypted:
            return None
        secret = (_site(self.world, self.names[0]).folder / "keys" / "sum.key").read_bytes()
        return _PublicOnly(bfv.load(secret, secret=True))

    def number(self, name):
        return self.names.index(name)

    def say(self, step, *parts):
        return write(self.policy, step, SERVER, EVERYONE, parts, self.voice.signer)

    def consents(self, survivors, told):
        """Tell some that these survived; their signatures, and the colluders', by number."""
        raw = self.say(Step.VECTOR, pack_numbers([self.number(name) for name in survivors]))
        got = self.trip(self.order.index(Step.CONSENT), dict.fromkeys(told, raw))
        self.split = {**getattr(self, "split", {}), survivors: {}}
        for name, state in self.states.items():
            self.split[survivors][name], got[name] = party.step(state, raw)
        return {self.number(name): consent for name, consent in got.items()}

    def shares(self, survivors, told, consents):
        """What those who were told so, and the colluders, reveal for these consents: by holder, of each member."""
        raw = self.say(Step.CONSENT, *(consents[number] for number in sorted(consents)))
        got = self.trip(self.order.index(Step.UNMASK), dict.fromkeys(told, raw))
        for name, state in self.split[survivors].items():
            with suppress(Exception):  # it need not keep to the protocol: it knows its shares anyway
                got[name] = party.step(state, raw)[1]
        revealed = {self.number(name): Said.from_bytes(body).parts[0] for name, body in got.items()}
        size = shamir.VALUE_BYTES
        return {
            holder: [body[at : at + size] for at in range(0, len(body), size)] for holder, body in revealed.items()
        }

    def opened(self):
        """The sum of all vectors, by the rules from here on."""
        central, said = (
            self.central,
            dict.fromkeys(self.names, self.say(Step.VECTOR, pack_numbers(range(len(self.names))))),
        )
        for step in (Step.CONSENT, Step.UNMASK):
            got = self.trip(self.order.index(step), said)
            central, answers = server.step(central, [(self.number(name), raw) for name, raw in got.items()])
            said = {self.names[number]: raw for number, raw in answers.items()}
        return central.total

    def two_stories(self, victim, first, second, without):
        """Tell ``first`` that all survived and ``second`` that the victim did not: its vector, if that works."""
        stories = [(tuple(self.names), first), (tuple(without), second)]
        signed = [self.consents(survivors, told) for survivors, told in stories]
        revealed = [self.shares(*story, consents) for story, consents in zip(stories, signed, strict=True)]
        number, threshold = self.number(victim), self.policy.threshold
        secrets = []
        for shares in revealed:
            points = [keys.share_of(holder, values[number]) for holder, values in shares.items()]
            if len(points) < threshold:
                return None
            secrets.append(shamir.reconstruct(points, threshold, 32))
        seed, key = secrets
        masked = np.frombuffer(self.vectors[number], self.policy.ring.dtype)
        publics = {n: hello.mask_public for n, hello in self.central.publics.items()}
        return unmasked(self.policy, masked, number, seed, key, publics)

    def decrypted(self, survivors, told, consents=None, added=None):
        """Have the sum of these vectors decrypted, by whichever of ``told`` does it; None if nobody does.

        It may really be the sum of the vectors of those in ``added``.
        """
        numbers = [self.number(name) for name in survivors]
        really = [self.number(name) for name in added or survivors]
        payload = self.central.carrier.total({number: self.vectors[number] for number in really})
        if consents is None:
            consents = self.consents(tuple(survivors), told) if Step.CONSENT in self.order else {}
        raw = self.say(self.order[-1], pack_numbers(numbers), payload, *(consents[n] for n in sorted(consents)))
        told = self.trip(len(self.order), dict.fromkeys(told, raw))
        return next((np.frombuffer(body, "<i8") for body in told.values()), None)


class _PublicOnly:
    """A context that adds: what a server has. Made from a site's, as tests keep no copy of the dealt one."""

    can_decrypt = False

    def __init__(self, context):
        self.fingerprint, self.read = context.fingerprint, context.read


def _site(world, name):
    return next(site for site in world.transport.sites.values() if site.name == name)


__all__ = ["Liar", "ready", "record_grids"]
