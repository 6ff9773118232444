"""A search whose runs nobody trains: a made-up score, and a world that plays orders one after the other."""

import hashlib

from unalike.runs.folder import RunDirectory
from unalike.studies.planned import look_at
from unalike.studies.schedule import Schedule
from unalike.studies.tuning.tune import tuning_plan, tuning_study


def study(space=("lr=log(1e-3,1)",), algorithms=("fedavg",), reporting=(0,), **options):
    names = ("trials", "budget", "seeds", "draw_seed")
    given = {name: options.pop(name) for name in names if name in options}
    fields = {"rounds": 9, "steps": 1, **options}
    return tuning_study(
        space,
        algorithms,
        given.get("trials"),
        given.get("budget"),
        given.get("seeds"),
        reporting,
        given.get("draw_seed", 0),
        fields,
    )


def plan(*given, **options):
    return tuning_plan(study(*given, **options))


def noise(spec, number):
    """A score that is as good as random, but the same for a run and a round."""
    return int(hashlib.sha256(f"{spec.key} {number}".encode()).hexdigest()[:8], 16) / 2**32


def play(runs, job, score=noise, fails=lambda spec, number: False, test=lambda value: 1 - value):
    """Play a job: rows until its round, none twice; gives the numbers of the rounds that were played."""
    spec = job.spec
    with RunDirectory.open(runs / spec.folder) as folder:
        folder.write_spec(spec.to_toml())
        played = []
        for number in range(len(folder.rounds()) + 1, job.until + 1):
            if fails(spec, number):
                folder.write_failure("it diverged")
                return played
            value = score(spec, number)
            folder.append_round(
                {"round": number, "validation_accuracy": value, "accuracy": test(value), "seconds": 0.1}
            )
            played.append(number)
        if job.until == spec.rounds:
            last = {"validation_accuracy": score(spec, spec.rounds), "accuracy": test(score(spec, spec.rounds))}
            folder.write_result({"key": spec.key, "rounds": spec.rounds, "seconds": 1.0, **last})
    return played


def finish(made, runs, rng=None, lives=1, **world):
    """Play a plan to its end, in an order that ``rng`` chooses, in several lives; the rounds that were played."""
    played = []
    for life in range(lives):
        schedule = Schedule(made, runs)  # knows what the folders say, and nothing else
        left = rng.randrange(1, 12) if rng and life < lives - 1 else 10**9
        under_way = []
        while not schedule.over and left:
            while len(under_way) < 3 and (job := schedule.take()) is not None:
                under_way.append(job)
            job = under_way.pop(rng.randrange(len(under_way)) if rng else 0)
            played += [(job.spec.key, number) for number in play(runs, job, **world)]
            schedule.finished(job)
            left -= 1
    return played


def look(runs):
    return lambda planned: look_at(planned, runs)
