"""One-line mutations of the algorithms and of what carries them: each must be noticed (test_mutations.py).

A mutation is what is wrong with it, the file, and the text that it replaces, which occurs there exactly once.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    what: str
    file: str
    old: str
    new: str


def of_file(file, *rows):
    """The mutations of one file: what is wrong, the text as it is, and what it becomes."""
    return [Mutation(what, file, old, new) for what, old, new in rows]


SCAFFOLD = of_file(
    "algorithms/scaffold.py",
    (
        "the control variates' sign is flipped",
        'return party.received["c"] - party.state["c"]',
        'return party.state["c"] - party.received["c"]',
    ),
    ("the server's control variate is forgotten in a step", 'party.received["c"] - party.state', "-party.state"),
    ("a party's control variate is lost", '"dc": new - c_i}, {"c": new}', '"dc": new - c_i}, party.state'),
    ("c_i starts from the weights", 'return {"c": w.new_zeros(w.shape)}', 'return {"c": w.clone()}'),
    ("c starts from the weights", '"w": w, "c": w.new_zeros(w.shape)', '"w": w, "c": w.clone()'),
    ("c moves without the cohort's share", "share * replies.mean", "replies.mean"),
    (
        "the share is in parties, the rest in rows",
        "replies.share if",
        "replies.size / replies.population if",
    ),
    ("the share is of the cohort itself", "replies.size / replies.population", "1.0"),
    ("divided by steps where momentum goes further", "party.step_sum * party.lr", "party.steps * party.lr"),
    ("the learning rate is not divided out", "(party.step_sum * party.lr)", "party.step_sum"),
    ("c is not taken out of c_i again", 'party.state["c"] - party.received["c"] + (', 'party.state["c"] + ('),
    ("equal weights are by size", "else party.size / party.size", "else party.size"),
    ("parties are weighted by their steps", "return party.size if", "return party.steps if"),
    ("the server's rate is forgotten", 'self.server_lr * replies.mean["delta"]', 'replies.mean["delta"]'),
    ("all of c_i is added, not its change", '"dc": new - c_i', '"dc": new'),
    ("option i looks at another model", '(party.received["w"])}', '(party.received["w"] * 0)}'),
)
FEDNOVA = of_file(
    "algorithms/fednova.py",
    ("divided by steps where momentum goes further", "steps = party.step_sum", "steps = party.steps"),
    ("two ways to count steps", '"steps": steps}', '"steps": party.steps}'),
    ("the mean step count is forgotten", 'replies.mean["steps"] * ', ""),
    ("the mean step count is of another power", 'replies.mean["steps"] * ', 'replies.mean["steps"].sqrt() * '),
)
FEDPROX = [
    *of_file(
        "algorithms/contract.py",
        ("the square is forgotten", "drift.dot(drift)", "drift.norm()"),
        ("the half is forgotten", "+ mu / 2 *", "+ mu *"),
        ("parties are pushed away", "+ mu / 2 *", "- mu / 2 *"),
    ),
    *of_file("algorithms/fedprox.py", ("another centre", 'party.received["w"]', 'party.received["w"] * 0')),
]
QFEDAVG = of_file(
    "algorithms/qfedavg.py",
    ("h without q", "h = self.q * loss", "h = loss"),
    ("h with F^q in place of F^(q-1)", "loss ** (self.q - 1)", "loss**self.q"),
    ("the norm is not squared", "change.dot(change)", "change.norm()"),
    ("h without L", "+ lipschitz * loss**self.q", "+ loss**self.q"),
    ("Delta with F^(q+1)", '"change": loss**self.q', '"change": loss ** (self.q + 1)'),
    ("Delta without F^q", '"change": loss**self.q * change', '"change": change'),
    ("Delta without L", "change = lipschitz * (", "change = ("),
    ("no value at a loss of zero", " + _LEAST_LOSS", ""),
    ("a step uphill", 'server["w"] - replies', 'server["w"] + replies'),
)
RFEDAVG = of_file(
    "algorithms/rfedavg.py",
    ("the party itself is included", "- 1 != party.number", "- 1 != -1"),
    ("normalised by N", "count.clamp(min=1)", "len(known)"),
    ("normalised by nothing", " / count.clamp(min=1)", ""),
    ("regularised where there is nobody else", "self.lam * (count > 0.5).to(count.dtype)", "self.lam"),
    ("parties never seen count", "others = known * (", "others = known.new_ones(known.shape) * ("),
    ("delta of the received model", "features(party.trained, batch)", 'features(party.received["w"], batch)'),
    ("absent parties' deltas are forgotten", 'server["deltas"].clone()', '(server["deltas"] * 0)'),
    ("absent parties are forgotten", 'server["known"].clone()', '(server["known"] * 0)'),
    ("noise of another deviation", "noise * party.normal", "noise**2 * party.normal"),
    ("noise in place of delta", "delta + noise * party", "noise * party"),
    ("parties seen long ago count less", 'server["known"].clone()', '(server["known"] / 2)'),
    ("the only other party counts half", "count.clamp(min=1)", "count.clamp(min=2)"),
    ("the model stays", 'server["w"] + replies.mean["delta"]', 'server["w"]'),
)
RFEDAVG_PLUS = of_file(
    "algorithms/rfedavg_plus.py",
    (
        "the party itself is included",
        '(party.received["delta_k"] - party.state["delta_k"]) /',
        'party.received["delta_k"] /',
    ),
    ("the mean of N", "/ others.clamp(min=1)", '/ party.received["count"].clamp(min=1)'),
    ("the only other party counts half", "/ others.clamp(min=1)", "/ others.clamp(min=2)"),
    ("one other party is nobody", "others > 0.5", "others > 1.5"),
    ("regularised where there is nobody else", "self.lam * (others > 0.5).to(others.dtype)", "self.lam"),
    (
        "delta of the old global model",
        'Ask("measure", {"w": server["w"]})',
        'Ask("measure", {"w": server["w"] - replies.mean["delta"]})',
    ),
    ("absent parties are forgotten", "server[key] + seen.sum[key]", "seen.sum[key]"),
    ("all of delta is added, not its change", "value - party.state[key]", "value"),
    ("a party forgets its share", "in now.items()}, now", "in now.items()}, party.state"),
)
MOON = of_file(
    "algorithms/moon.py",
    (
        "near and far are swapped",
        'party.received["w"], party.state["previous"]',
        'party.state["previous"], party.received["w"]',
    ),
    ("times the temperature", "self.mu, self.temperature", "self.mu, 1 / self.temperature"),
    ("the strength is forgotten", "return self.mu, self", "return 1.0, self"),
    ("the last model is the received one", ', {"previous": w}', ', {"previous": party.received["w"]}'),
    ("the last model is lost", ', {"previous": w}', ", party.state"),
    ("the first last model is another", 'return {"previous": w}', 'return {"previous": w * 0}'),
)
SERVERS = [
    *of_file(
        "algorithms/fedavgm.py",
        ("momentum against the movement", "self.momentum * server", "-self.momentum * server"),
        ("the velocity is lost", '"velocity": velocity}', '"velocity": replies.mean["delta"]}'),
        ("the server's rate is forgotten", "self.server_lr * velocity", "velocity"),
    ),
    *of_file(
        "algorithms/adaptive.py",
        ("1 - beta1 is lost", "(1 - self.beta1) * update", "update"),
        ("the square root is lost", "v.sqrt() + self.tau", "v + self.tau"),
        ("tau under the root", "(v.sqrt() + self.tau)", "(v + self.tau).sqrt()"),
        ("v starts at zero", "w.new_full(w.shape, self.tau**2)", "w.new_zeros(w.shape)"),
        ("the update is not squared", "update**2", "update.abs()"),
        ("a step back", "+ self.server_lr * m", "- self.server_lr * m"),
    ),
    *of_file("algorithms/fedadam.py", ("1 - beta2 is lost", "(1 - self.beta2) * square", "square")),
    *of_file("algorithms/fedyogi.py", ("away from the update", "(v - square).sign()", "(square - v).sign()")),
    *of_file("algorithms/fedadagrad.py", ("the past is forgotten", "return v + square", "return square")),
]
CARRIERS = [
    *of_file(
        "algorithms/contract.py",
        ("all parties weigh the same", "return party.size", "return party.size / party.size"),
    ),
    *of_file(
        "algorithms/replies.py",
        ("divided by parties, not by weights", "v / self.weight", "v / self.size"),
    ),
    *of_file("models/noise.py", ("noise of another deviation", "-2 * torch.log1p", "-torch.log1p")),
    *of_file(
        "rounds/optimisers.py",
        (
            "the effective steps are those of a velocity at its limit",
            "(steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)",
            "steps / (1 - rho)",
        ),
        ("momentum starts anew in every step", 'slots["velocity"].mul_(self.momentum)', "grad.clone().mul_(0)"),
    ),
    *of_file(
        "rounds/upload.py",
        ("weights are not applied", "else value * amount for key", "else value for key"),
    ),
    *of_file(
        "rounds/gather.py",
        ("the cohort is everybody", "else population.share(gathered.answered)", "else 1.0"),
        ("statistics by the number of parties", "mean / total.weight", "mean / len(kept)"),
        ("bytes of one party", "parties * one.numel()", "one.numel()"),
        (
            "added in the order of arrival",
            "waiting[reply.party] = reply",
            "yield reply",
        ),
    ),
    *of_file(
        "rounds/worker.py",
        ("the same noise in every round", '"noise", order.round, self.number', '"noise", 0, self.number'),
        ("the same noise for every party", '"noise", order.round, self.number', '"noise", order.round, 0'),
    ),
    *of_file(
        "rounds/local.py",
        ("one batch for the mean feature", "MEASURE_ROWS):", "MEASURE_ROWS)[:1]:"),
        ("parts are added up, not averaged", "value * (len(index) / len(own))", "value"),
        ("what was trained is not looked at", 'own["trained"] = w', 'own["trained"] = algorithm.start(me)'),
        ("the correction is skipped", 'if algorithm.overrides("correct", "linear", "pace")', "if False"),
    ),
    *of_file(
        "engines/vectorised.py",
        ("padding counts", "torch.from_numpy(real)", "torch.from_numpy(real | True)"),
        (
            "somebody else's trained model",
            "lambda v: v[torch.as_tensor(order, device=v.device)]",
            "lambda v: v",
        ),
        ("somebody else's measurement", "value[torch.from_numpy(back).to(value.device)]", "value"),
        ("parts are weighted by another party's rows", "len(r) / len(own[i])", "len(r) / len(own[0])"),
        ("the correction is skipped", 'if algorithm.overrides("correct", "linear", "pace")', "if False"),
    ),
    *of_file(
        "runs/training.py",
        (
            "a party's own statistics are lost",
            "before.own_buffers.get(party, fresh) if now is None else now",
            "fresh",
        ),
        (
            "local statistics are counted as sent",
            "shared = None if self.recipe.keeps_statistics else",
            "shared =",
        ),
    ),
    *of_file(
        "rounds/state.py",
        ("absent parties' states are lost", "with_states(self.parties, states)", "states"),
        (
            "absent parties' statistics are lost",
            "with_tensors(self.own_buffers, ledger.own_buffers)",
            "ledger.own_buffers",
        ),
    ),
    *of_file(
        "rounds/evaluation.py",
        (
            "everybody evaluates with shared statistics",
            "lambda number: (w, self.statistics(number))",
            "lambda number: (w, self.buffers)",
        ),
        (
            "absent parties' fresh statistics count",
            "[figures(models.own_buffers[k]) for k in federation.tried if k in models.own_buffers]",
            "[figures(models.statistics(k)) for k in range(federation.size)]",
        ),
    ),
]
SCORES = [
    *of_file(
        "scores.py",
        (
            "right answers by what was said",
            'own = tally["confusion"].sum(axis=1)',
            'own = tally["confusion"].sum(axis=0)',
        ),
        ("half of F1", "2 * confusion.diagonal()", "confusion.diagonal()"),
        ("pairs in one bin are won", "cumsum(axis=1) - others / 2", "cumsum(axis=1)"),
        ("variance around 0", 'squares - total**2 / tally["rows"]', "squares"),
        ("an error is better when it is larger", 'better == "up" else -value', 'better == "up" else value'),
    ),
    *of_file(
        "tallies.py",
        ("another distance from what happened", "- 2 * chosen + 1", "- chosen + 1"),
        ("ties are won", "np.cumsum(counts) - (counts - 1) / 2", "np.cumsum(counts)"),
        ("own rows and others are swapped", "(labels == k) == own", "(labels == k) != own"),
        ("what cannot be is believed", 'name not in ("targets", "loss") and (value < 0).any()', "False"),
        ("parts may be of other rows", "not np.allclose(counts, rows", "not np.allclose(counts, counts"),
        ("more right than rows", "not np.all(least <= most * (1 + 1e-9) + 1e-9)", "False"),
    ),
    *of_file(
        "rounds/judging.py",
        ("errors in standard deviations", "(objective.predict(outputs) - y) * unit", "losses"),
        ("a party has the rows of those before it", "slice(end - size, end)", "slice(0, end)"),
    ),
    *of_file(
        "rounds/evaluation.py",
        ("the worst party is the lowest error", "key=lambda v: goodness(score.name, v)", "key=lambda v: v"),
    ),
    *of_file(
        "runs/selection.py",
        ("the round with the largest error is selected", "(goodness(score.name, row[key]), -", "(row[key], -"),
    ),
    *of_file(
        "models/loss.py",
        ("the square is forgotten", "(outputs[:, 0] - y) ** 2", "(outputs[:, 0] - y).abs()"),
    ),
]
SECOND_EDITION = [
    *of_file(
        "algorithms/exchange.py",
        ("everybody is sent the same row", "self.values[int(self.which[party])]", "self.values[0]"),
        ("a row by the party's number", "self.values[int(self.which[party])]", "self.values[party % 3]"),
    ),
    *of_file(
        "algorithms/contract.py",
        ("one strength for all weights", "(mu * drift).dot(drift) / 2", "mu.mean() * drift.dot(drift) / 2"),
        ("the half of each strength is forgotten", "(mu * drift).dot(drift) / 2", "(mu * drift).dot(drift)"),
    ),
    *of_file(
        "models/noise.py",
        ("the same draw in each step", "_signed((step + 1) * _STEP)", "_signed(_STEP)"),
        ("the same draws in each phase", "_signed(later * _PHASE)", "0"),
    ),
    *of_file(
        "models/parts.py",
        ("layers that normalise rows are left out", "isinstance(module, _NORMALISES)", "False"),
    ),
    *of_file(
        "models/derivatives.py",
        ("a gradient at another model", "point = w.detach()", "point = w.detach() * 0.5"),
    ),
    *of_file(
        "rounds/order.py",
        ("the first phase has the batches of one", "len(self.phases) - 1 - which", "which"),
        ("all phases have the same batches", "len(self.phases) - 1 - which", "0"),
        ("what prepares has the phases of a round", "algorithm.phases(task, round)", "algorithm.phases(task, 1)"),
    ),
    *of_file(
        "rounds/worker.py",
        ("a phase's epochs are the run's", "phase.epochs is None and phase.steps is None", "phase.steps is None"),
        ("a phase's steps are the run's", "phase.epochs is None and phase.steps is None", "phase.epochs is None"),
        ("phases see own rows alone", 'if phase.rows == "public"', "if False"),
        ("passes see own rows alone", 'if order.rows == "public"', "if False"),
        ("validation rows are training rows", 'if order.rows == "train"', "if True"),
        ("all weights move", "if not phase.trains:", "if True:"),
    ),
    *of_file(
        "rounds/local.py",
        ("nothing is kept after a phase", 'own["state"] = algorithm.keep(me, w)', "pass"),
        ("frozen weights move", "w.copy_(torch.where(moving, w, start))", "pass"),
        (
            "an adapted model is the last phase's alone",
            "number, worker.party(order, own, phase.name), buffers, w)",
            "number, worker.party(order, own, phase.name), buffers, w * 0)",
        ),
    ),
    *of_file(
        "engines/vectorised.py",
        ("nothing is kept after a phase", "self.algorithm.keep(me, own[", "dict(me.state) or (own["),
        ("frozen weights move", "w[:count] = torch.where(moving, w[:count], start[:count])", "pass"),
        ("rows of one's own are shared", "all(o.payload[k] is v for _, o in self.pairs)", "True"),
    ),
    *of_file(
        "engines/compiled/engine.py",
        ("the kernels move all weights", "trains=span,", ""),
    ),
    *of_file(
        "runs/training.py",
        ("what prepares is forgotten", "number == 1 and self._prepares", "False"),
        ("prepared in every round", "number == 1 and self._prepares", "self._prepares"),
        (
            "those who are not asked leave",
            "missing = set(asked) - set(gathered.answered)",
            "missing = set(ledger.cohort) - set(gathered.answered)",
        ),
    ),
    *of_file(
        "runs/cohorts.py",
        ("everybody is asked", "[number for number in cohort if number in ask.to]", "list(cohort)"),
    ),
    *of_file(
        "rounds/population.py",
        ("newcomers hold rows", "Array = self.rows[there]", "Array = self.rows"),
        ("newcomers are asked", "if newcomers else range", "if False else range"),
    ),
    *of_file(
        "rounds/gather.py",
        ("all rows count as sent", "value.values[0] if isinstance", "value.values if isinstance"),
    ),
    *of_file(
        "rounds/personal.py",
        ("fine-tuning starts from nothing", "self.base.personal(party)", "self.base.personal(party) * 0"),
    ),
]
