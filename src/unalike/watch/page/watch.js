"use strict";
(() => {
  const { html, known, written, fixed } = charts;
  const at = (id) => document.getElementById(id);
  const ORDER = ["running", "failed", "damaged", "stopped", "waiting", "finished"];
  const SIGNS = { running: "▶", finished: "✓", failed: "✗", damaged: "⚠", stopped: "■", waiting: "…" };
  const TITLES = { score: "Score", loss: "Test loss", train_loss: "Training loss", parties_mean: "Parties, mean", parties_worst: "Worst party", personal_mean: "Personal models, mean", personal_worst: "Personal models, worst" };
  const LOSSES = ["loss", "train_loss"];
  const MOST_LINES = 8, FIRST_ROWS = 60;
  const runs = new Map(), rows = new Map(), slots = new Map();
  let state = { figures: [], scales: {} }, about = {}, figure = "score", everything = false, chosen = null, seen = false;
  const hidden = new Set();

  // ---- how numbers are told ----
  const size = (bytes) => {
    for (const unit of ["B", "kB", "MB", "GB"]) { if (bytes < 1000) return `${unit === "B" ? bytes : +bytes.toPrecision(3)} ${unit}`; bytes /= 1000; }
    return `${+bytes.toPrecision(3)} TB`;
  };
  const time = (seconds) => {
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  };
  const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
  const scale = (run) => state.scales[run.head.scale] || { name: run.head.scale, unit: "", digits: 3, up: 1, low: null, high: null };
  const value = (run, name) => {
    const found = run.head.values[name];
    if (!known(found)) return "–";
    return LOSSES.includes(name) ? written(found) : `${fixed(found, scale(run).digits)}${scale(run).unit}`;
  };
  const worst = (run) => (known(run.head.values.personal_worst) ? "personal_worst" : "parties_worst");
  const set = (node, words) => { if (node.textContent !== words) node.textContent = words; };
  const fill = (node, part) => { node.style.width = `${(100 * Math.max(0, Math.min(1, part))).toFixed(1)}%`; };
  const part = (run) => (run.head.state === "finished" ? 1 : run.head.rounds ? Math.min(1, run.head.done / run.head.rounds) : 0);

  // ---- in which order, and which of them ----
  const sorted = () => [...runs.values()].sort((a, b) =>
    ORDER.indexOf(a.head.state) - ORDER.indexOf(b.head.state)
    || (a.head.state === "running" ? 0 : b.head.changed - a.head.changed) // those that run would change places all the time
    || (a.id < b.id ? -1 : 1));
  const text = (run) => [run.head.algorithm, run.head.dataset, run.head.partition, known(run.head.seed) ? `seed ${run.head.seed}` : "", run.head.more, run.head.state, run.id].join(" ").toLowerCase();
  const matching = (list) => {
    const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    return words.length ? list.filter((run) => { const all = text(run); return words.every((word) => all.includes(word)); }) : list;
  };
  const lines = () => {
    if (chosen) return [...chosen].map((id) => runs.get(id)).filter(Boolean);
    const drawable = matching(sorted()).filter((run) => run.rows.length);
    const going = drawable.filter((run) => run.head.state === "running");
    return going.length ? going.slice(0, MOST_LINES) : drawable.sort((a, b) => b.head.changed - a.head.changed).slice(0, MOST_LINES);
  };
  const labels = (list) => {
    const fields = ["algorithm", "dataset", "partition", "seed", "more"];
    const kept = fields.filter((name) => name === "algorithm" || new Set(list.map((run) => String(run.head[name]))).size > 1);
    const made = list.map((run) => kept.map((name) => (name === "seed" ? `seed ${run.head.seed}` : run.head[name])).filter(Boolean).join(" · "));
    return made.map((name, index) => charts.clipped(name, 70) + (made.indexOf(name) !== made.lastIndexOf(name) ? ` · ${list[index].head.key.slice(0, 6)}` : ""));
  };

  // ---- the chart ----
  const slot = (list) => {
    for (const id of [...slots.keys()]) if (!list.some((run) => run.id === id)) slots.delete(id);
    for (const run of list) if (!slots.has(run.id)) { let free = 0; while ([...slots.values()].includes(free)) free += 1; slots.set(run.id, free); }
  };
  const draw = () => {
    const list = lines(), kinds = state.figures.filter((name) => list.some((run) => known(run.head.values[name])));
    at("curves").hidden = ![...runs.values()].some((run) => run.rows.length);
    if (at("curves").hidden) return;
    if (!kinds.includes(figure) && kinds.length) figure = kinds[0];
    const names = JSON.stringify(kinds);
    if (at("figures").dataset.names !== names) {
      at("figures").dataset.names = names;
      at("figures").replaceChildren();
      for (const name of kinds) {
        const button = html(at("figures"), "button", "", TITLES[name]);
        button.type = "button";
        button.dataset.figure = name;
        button.addEventListener("click", () => { figure = name; charts.hide(); draw(); });
      }
    }
    for (const button of at("figures").children) button.setAttribute("aria-pressed", String(button.dataset.figure === figure));
    const place = 1 + state.figures.indexOf(figure), titles = labels(list);
    slot(list);
    const number = new Map(list.map((run, index) => [titles[index], slots.get(run.id)]));
    const series = list.map((run, index) => {
      const points = run.rows.filter((row) => known(row[place]));
      return { name: titles[index], x: points.map((row) => row[0]), mean: points.map((row) => row[place]), std: [] };
    });
    const first = list.length ? scale(list[0]) : { name: "", unit: "", digits: 1, up: 1, low: null, high: null };
    const several = new Set(list.map((run) => run.head.scale)).size > 1;
    const what = figure === "score" ? `test ${several ? "score" : first.name}` : `${TITLES[figure].toLowerCase()}${LOSSES.includes(figure) ? "" : `: ${several ? "score" : first.name}`}`;
    const axis = LOSSES.includes(figure) ? { name: what, unit: "", digits: 4, up: -1, low: 0, high: null } : { ...first, name: what + (first.unit ? ` in${first.unit}` : "") };
    charts.lines(at("chart"), series, "round", axis, {
      place: (name) => number.get(name) || 0, hidden, redraw: draw, what: "Runs", none: "No value of this is known yet.", target: null,
    });
    const drawable = [...runs.values()].filter((run) => run.rows.length).length;
    set(at("drawn"), list.length < drawable ? `${list.length} of ${plural(drawable, "run")} are drawn${chosen ? "" : " (those that run, else the latest)"}; choose others in the table below.` : "");
  };

  // ---- the table of runs ----
  const row = (run) => {
    let made = rows.get(run.id);
    if (!made) {
      const line = document.createElement("tr"), box = html(html(line, "td"), "input");
      box.type = "checkbox";
      box.addEventListener("change", () => {
        if (!chosen) chosen = new Set(lines().map((one) => one.id));
        box.checked ? chosen.add(run.id) : chosen.delete(run.id);
        hidden.clear();
        charts.hide();
        draw();
        check();
      });
      const head = html(line, "th");
      head.scope = "row";
      const name = html(head, "span"), under = html(head, "small"), problem = html(head, "small", "problem");
      const standing = html(html(line, "td"), "span", "state");
      const cells = ["", "score", "worst", "sent", "took"].map((label) => { const cell = html(line, "td", "n"); if (label) cell.dataset.name = label; return cell; });
      const count = html(cells[0], "span"), bar = html(html(cells[0], "span", "bar"), "i");
      bar.parentElement.setAttribute("aria-hidden", "true");
      made = { line, box, name, under, problem, standing, cells, count, bar };
      rows.set(run.id, made);
    }
    return made;
  };
  const two = (cell, first, second) => {
    if (cell.dataset.said === `${first}|${second}`) return;
    cell.dataset.said = `${first}|${second}`;
    cell.replaceChildren(first);
    if (second) html(cell, "small", "", second);
  };
  const write = (run) => {
    const made = row(run), { head } = run;
    set(made.name, charts.clipped(head.algorithm, 90));
    set(made.under, [head.dataset, head.partition, known(head.seed) ? `seed ${head.seed}` : "", head.more, head.key.slice(0, 6)].filter(Boolean).join(" · "));
    set(made.problem, head.problem);
    made.standing.className = `state ${head.state}`;
    set(made.standing, `${SIGNS[head.state] || ""} ${head.state}`);
    made.box.setAttribute("aria-label", `Draw ${head.algorithm}, ${head.key.slice(0, 6)}`);
    made.box.disabled = !run.rows.length;
    set(made.count, `${head.done} / ${head.rounds || "?"}`);
    fill(made.bar, part(run));
    two(made.cells[1], value(run, "score"), known(head.values.loss) ? `loss ${value(run, "loss")}` : "");
    two(made.cells[2], value(run, worst(run)), worst(run) === "personal_worst" ? "personal" : "");
    two(made.cells[3], head.done ? `${size(head.bytes_up)} ↑` : "–", head.done ? `${size(head.bytes_down)} ↓${known(head.epsilon) ? `, ε ${written(head.epsilon)}` : ""}` : "");
    two(made.cells[4], head.done ? time(head.seconds) : "–", known(head.eta) ? `${time(head.eta)} left` : "");
  };
  const check = () => {
    const on = new Set(lines().map((run) => run.id));
    for (const [id, made] of rows) made.box.checked = on.has(id);
  };
  const list = (changed) => {
    const several = runs.size > 1;
    at("runs").hidden = !several;
    at("facts").hidden = runs.size !== 1;
    if (!several) { rows.clear(); at("list").replaceChildren(); return; }
    const found = matching(sorted()), shown = everything ? found : found.slice(0, FIRST_ROWS);
    for (const run of shown) if (!rows.has(run.id) || changed.has(run.id)) write(run);
    const body = at("list"), wanted = shown.map((run) => row(run).line);
    wanted.forEach((line, index) => { if (body.children[index] !== line) body.insertBefore(line, body.children[index] || null); });
    while (body.childElementCount > wanted.length) body.lastElementChild.remove();
    const kept = new Set(shown.map((run) => run.id));
    for (const id of [...rows.keys()]) if (!kept.has(id)) rows.delete(id);
    set(at("found"), found.length < runs.size ? `${plural(found.length, "run")} of ${runs.size.toLocaleString("en")}` : plural(runs.size, "run"));
    at("all").hidden = everything || found.length <= FIRST_ROWS;
    set(at("all"), `Show all ${found.length.toLocaleString("en")}`);
    check();
  };

  // ---- one run alone ----
  const members = (head) => {
    const now = head.state === "running" && head.done < head.rounds;
    if (head.members) return `${head.members.join(", ")} (of round ${head.done + (now ? 1 : 0)}; parties count from 0)`;
    return known(head.cohort) ? plural(head.cohort, "party", "parties") : "–";
  };
  const facts = () => {
    if (runs.size !== 1) return;
    const [run] = runs.values(), { head } = run, told = head.values;
    const pairs = [
      ["State", `${SIGNS[head.state] || ""} ${head.state}`], ["Algorithm", head.algorithm], ["Data set", head.dataset], ["Partition", head.partition],
      ["Seed", known(head.seed) ? String(head.seed) : "–"], ["Rounds", `${head.done} of ${head.rounds || "?"}`],
      [`Test ${scale(run).name}`, value(run, "score")], ["Test loss", value(run, "loss")],
      ...(known(told.parties_mean) ? [["Parties: mean, worst", `${value(run, "parties_mean")}, ${value(run, "parties_worst")}`]] : []),
      ...(known(told.personal_mean) ? [["Personal models: mean, worst", `${value(run, "personal_mean")}, ${value(run, "personal_worst")}`]] : []),
      ["In the round", members(head)], ["Sent up", size(head.bytes_up)], ["Sent down", size(head.bytes_down)],
      ...(known(head.epsilon) ? [["Privacy spent", `ε ${written(head.epsilon)}`]] : []),
      ["Took", time(head.seconds)], ["Left", known(head.eta) ? time(head.eta) : "–"],
    ];
    const box = at("fact-list"), names = JSON.stringify(pairs.map(([name]) => name));
    if (box.dataset.names !== names) {
      box.dataset.names = names;
      box.replaceChildren();
      for (const [name] of pairs) { const pair = html(box, "div"); html(pair, "dt", "", name); html(pair, "dd"); }
    }
    pairs.forEach(([, words], index) => set(box.children[index].lastElementChild, words));
  };

  // ---- a study's grid ----
  const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
  const grid = () => {
    at("study").hidden = !about.grid;
    if (!about.grid) return;
    const { columns, rows: settings } = about.grid, shape = JSON.stringify(about.grid.columns) + settings.length;
    if (at("grid").dataset.shape !== shape) {
      at("grid").dataset.shape = shape;
      const head = document.createElement("tr");
      for (const name of ["Setting", ...columns]) html(head, "th", "", name).scope = "col";
      at("grid-head").replaceChildren(head);
      at("grid").replaceChildren();
      for (const one of settings) {
        const line = html(at("grid"), "tr"), name = html(line, "th", "", one.title[0]);
        name.scope = "row";
        html(name, "small", "", one.title.slice(1).join(" · "));
        for (const column of columns) {
          const cell = html(line, "td", "cell");
          if (!one.cells[column]) { cell.textContent = "–"; continue; }
          html(cell, "span");
          const bar = html(cell, "span", "bar");
          bar.setAttribute("aria-hidden", "true");
          html(bar, "i");
          html(cell, "small");
        }
      }
    }
    settings.forEach((one, line) => columns.forEach((column, place) => {
      const ids = one.cells[column];
      if (!ids) return;
      const cell = at("grid").children[line].children[place + 1], found = ids.map((id) => runs.get(id)).filter(Boolean);
      const done = found.filter((run) => run.head.state === "finished"), bad = found.filter((run) => ["failed", "damaged"].includes(run.head.state));
      const going = found.filter((run) => run.head.state === "running"), scores = found.map((run) => run.head.values.score).filter(known);
      const like = found.find((run) => known(run.head.values.score));
      set(cell.children[0], like ? `${fixed(mean(scores), scale(like).digits)}${scale(like).unit}` : "–");
      fill(cell.children[1].firstElementChild, found.reduce((sum, run) => sum + part(run), 0) / ids.length);
      const words = [`${done.length}/${ids.length} ✓`, going.length ? `${going.length} ▶ running` : "", bad.length ? `${bad.length} ✗ failed` : "", ids.includes(null) ? "tuning first" : ""];
      set(cell.children[2], words.filter(Boolean).join(", "));
    }));
  };

  // ---- a federation ----
  const federation = () => {
    const found = about.standing;
    at("federation").hidden = !found;
    if (!found) return;
    const waiting = (found.waiting || []).length ? ` Waiting for ${found.waiting.join(", ")}.` : "";
    const ended = found.outcome && found.outcome !== "finished" ? ` It ${found.outcome === "put off" ? "was put off" : found.outcome}${found.reason ? `: ${found.reason}` : ""}` : "";
    set(at("standing"), `The server ${found.serving ? "is running" : "is not running"}. The training: ${found.state}.${waiting}${ended}`);
    while (at("sites").childElementCount > found.parties.length) at("sites").lastElementChild.remove();
    found.parties.forEach((party, index) => {
      const line = at("sites").children[index] || html(at("sites"), "tr");
      if (!line.childElementCount) { html(line, "th").scope = "row"; html(line, "td"); for (let n = 0; n < 4; n += 1) html(line, "td", "n"); }
      two(line.children[0], party.name, party.admitted ? "" : "not admitted yet");
      const last = party.answered.map((each) => (each ? "●" : "○")).join("");
      set(line.children[1], last || "–");
      line.children[1].className = "dots";
      line.children[1].setAttribute("aria-label", party.answered.length ? `answered ${party.answered.filter(Boolean).length} of the last ${party.answered.length}` : "none yet");
      set(line.children[2], party.answers.toLocaleString("en"));
      set(line.children[3], known(party.seconds) ? time(party.seconds) : "–");
      set(line.children[4], size(party.bytes_up));
      set(line.children[5], size(party.bytes_down));
    });
    set(at("log"), (found.log || []).join("\n") || "Nothing was said yet.");
  };

  // ---- all of it in a line ----
  const summary = () => {
    const counts = {};
    for (const run of runs.values()) counts[run.head.state] = (counts[run.head.state] || 0) + 1;
    const total = about.total || runs.size, undecided = total - runs.size;
    if (undecided > 0) counts.waiting = (counts.waiting || 0) + undecided;
    const told = ORDER.filter((name) => counts[name]).map((name) => `${counts[name].toLocaleString("en")} ${name}`).join(", ");
    const [only] = runs.values();
    const at_it = about.kind === "study" ? (about.processes ? ` ${plural(about.processes, "process is", "processes are")} at it.` : " No process is at it now.") : "";
    if (runs.size === 1 && about.kind !== "study") set(at("summary"), `${SIGNS[only.head.state]} ${only.head.state}: round ${only.head.done} of ${only.head.rounds || "?"}.`);
    else set(at("summary"), runs.size ? `${plural(total, "run")}: ${told}.${at_it}` : "");
    const done = [...runs.values()].reduce((sum, run) => sum + part(run), 0);
    at("overall").hidden = !runs.size;
    fill(at("overall").firstElementChild, total ? done / total : 0);
    const left = known(about.eta) ? about.eta : Math.max(-1, ...[...runs.values()].map((run) => (known(run.head.eta) ? run.head.eta : -1)));
    set(at("eta"), left >= 0 ? `About ${time(left)} left at the present pace.` : "");
    const trouble = [about.trouble, ...(about.lost || []), runs.size === 1 ? only.head.problem : ""].filter(Boolean).join(" ");
    at("trouble").hidden = !trouble;
    set(at("trouble"), trouble || "");
    set(at("title"), about.title || "Unalike watch");
    document.title = `${counts.running ? `${counts.running} ▶ ` : ""}${about.title || "Unalike watch"}`;
    at("empty").hidden = runs.size > 0;
    set(at("empty"), about.empty || "");
  };

  // ---- what comes in ----
  const take = (news, whole) => {
    if (whole) { state = news; about = {}; const there = new Set(news.runs.map((one) => one.id)); for (const id of [...runs.keys()]) if (!there.has(id)) runs.delete(id); }
    Object.assign(about, news.about || {});
    for (const id of news.gone || []) runs.delete(id);
    const changed = new Set();
    for (const one of news.runs || []) {
      const run = runs.get(one.id) || { id: one.id, rows: [] };
      run.head = one.head;
      run.rows = one.from ? [...run.rows.slice(0, one.from), ...one.rows] : one.rows;
      runs.set(one.id, run);
      changed.add(one.id);
    }
    if (chosen) for (const id of [...chosen]) if (!runs.has(id)) chosen.delete(id);
    summary();
    federation();
    grid();
    draw();
    facts();
    list(changed);
    seen = true;
    document.body.dataset.seen = "yes";
  };
  let source = null;
  const link = (name, words) => { at("link").className = name; set(at("link"), words); };
  const open = () => {
    source?.close();
    source = new EventSource("events");
    source.addEventListener("whole", (event) => { link("live", "live"); take(JSON.parse(event.data), true); });
    source.addEventListener("more", (event) => take(JSON.parse(event.data), false));
    source.addEventListener("error", () => {
      const ended = source.readyState === EventSource.CLOSED;
      link("lost", ended ? "refused: start unalike watch again, and use its new address" : `not connected${seen ? ": what is below is the last that was known" : ""}`);
    });
  };
  document.addEventListener("visibilitychange", () => { // a browser has few connections: a page that nobody sees needs none
    if (document.hidden) { source?.close(); source = null; link("", "asleep"); } else if (!source) open();
  });
  addEventListener("pagehide", () => source?.close());
  let before = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === before) return;
    before = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => { charts.hide(); draw(); }, 120);
  });
  at("filter").addEventListener("input", () => { list(new Set()); if (!chosen) draw(); });
  at("all").addEventListener("click", () => { everything = true; list(new Set()); });
  if (location.search) history.replaceState(null, "", location.pathname); // the token is used up
  open();
})();
