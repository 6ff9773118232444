"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const { make, html, colour, known, wide, written, fixed, bounds, clipped, ticks, canvas, show, hide } = charts;
  const hidden = new Set();
  const sections = [...document.querySelectorAll(".setting")];

  const place = (name) => DATA.places[name] || 0;

  // ---- who holds which labels ----
  const heat = (box, found) => {
    const rows = found.parties.length, columns = found.labels.length, width = wide(box);
    const left = Math.min(130, 14 + 6.6 * Math.max(...found.parties.map((name) => Math.min(name.length, 18))));
    const longest = Math.max(...found.labels.map((name) => name.length));
    const slanted = columns > 1 && longest * 6.8 > Math.min((width - left) / columns, 96) - 4;
    const beyond = slanted ? 5 * Math.min(found.labels[columns - 1].length, 14) : 0; // the last name leans out
    const cell = Math.min((width - left - beyond) / columns, 96), tall = rows > 30 ? Math.max(6, 380 / rows) : 25;
    const top = slanted ? 18 + 4.6 * Math.min(longest, 14) : 20;
    const height = Math.ceil(top + rows * tall + 2);
    const svg = canvas(box, width, height, `Labels by party: ${rows} lines, ${columns} labels.`);
    const sums = found.counts.map((line) => Math.max(1, line.reduce((a, b) => a + b, 0)));
    const most = Math.max(...found.counts.flatMap((line, index) => line.map((count) => count / sums[index])), 1e-9);
    const digits = Math.max(...found.counts.flat()).toLocaleString("en").length;
    const numbered = rows <= 30 && cell >= 7 * digits + 4;
    const each = Math.max(1, Math.ceil(14 / cell)), step = Math.max(1, Math.ceil(13 / tall));
    found.labels.forEach((name, index) => {
      if (index % each) return;
      const x = left + (index + 0.5) * cell;
      const turn = slanted ? { x, y: top - 6, "text-anchor": "start", transform: `rotate(-40 ${x} ${top - 6})` } : { x, y: top - 7, "text-anchor": "middle" };
      make(svg, "text", turn, name.trim() ? clipped(name, 14) : "␣");
    });
    found.counts.forEach((line, row) => {
      if (row % step === 0) make(svg, "text", { x: left - 8, y: top + (row + 0.5) * tall + 4, "text-anchor": "end" }, clipped(found.parties[row], 18));
      line.forEach((count, column) => {
        const share = count / sums[row], shade = share / most, gap = numbered ? 1 : tall > 8 ? 0.5 : 0;
        const square = make(svg, "rect", { x: left + column * cell + gap, y: top + row * tall + gap, width: Math.max(0.5, cell - 2 * gap), height: tall - 2 * gap });
        square.style.fill = `rgba(var(--heat), ${(0.05 + 0.93 * shade).toFixed(3)})`;
        if (numbered) {
          const number = make(svg, "text", { x: left + (column + 0.5) * cell, y: top + (row + 0.5) * tall + 4, "text-anchor": "middle", "font-size": 11 }, count.toLocaleString("en"));
          number.style.fill = shade > 0.55 ? "var(--heat-ink)" : count ? "var(--ink)" : "var(--soft)";
          number.style.pointerEvents = "none";
        }
        const read = (event) => show(`${found.parties[row]}, label ${found.labels[column]}`, [["rows", count.toLocaleString("en")], ["share of the party's", `${(100 * share).toFixed(1)} %`]], event.clientX, event.clientY);
        square.addEventListener("pointermove", read);
        square.addEventListener("pointerdown", read);
      });
    });
    svg.addEventListener("pointerleave", hide);
  };

  // ---- how single parties fare ----
  const fair = (box, strips, scale) => {
    const width = wide(box), narrow = width < 520, tall = narrow ? 58 : 40, top = narrow ? 4 : 8;
    const left = narrow ? 6 : Math.min(190, 20 + 7 * Math.max(...strips.map((one) => one.name.length))), right = width - 12;
    const bottom = top + strips.length * tall, digits = scale.digits;
    const [least_, most] = bounds(scale), ends = strips.flatMap((one) => [one.box[0], one.box[4]]);
    const pad = 0.04 * (Math.max(...ends) - Math.min(...ends)) || 0.5;
    const low = Math.max(least_, Math.min(...ends) - pad), high = Number.isFinite(most) ? most : Math.max(...ends) + pad;
    const medians = strips.map((one) => `${one.name}: median ${fixed(one.box[2], digits)}, worst tenth ${fixed(one.tenth, digits)}`);
    const svg = canvas(box, width, bottom + 40, `${scale.own} of the parties. ${medians.join("; ")}.`);
    const across = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
    for (const at of ticks(low, high, narrow ? 4 : 8)) {
      make(svg, "line", { class: "grid", x1: across(at), x2: across(at), y1: top, y2: bottom });
      make(svg, "text", { x: across(at), y: bottom + 17, "text-anchor": "middle" }, written(at));
    }
    make(svg, "text", { x: right, y: bottom + 34, "text-anchor": "end" }, `${scale.own} on a party's held-out rows${scale.unit ? `, ${scale.unit.trim()}` : ""}`);
    strips.forEach((one, row) => {
      const paint = colour(place(one.name)), middle = top + row * tall + (narrow ? 38 : tall / 2);
      make(svg, "text", narrow ? { x: left, y: middle - 20, class: "strong" } : { x: left - 14, y: middle + 4, "text-anchor": "end", class: "strong" }, clipped(one.name, 28));
      const group = make(svg, "g");
      const [least, lower, median, upper, greatest] = one.box;
      make(group, "line", { x1: across(least), x2: across(greatest), y1: middle, y2: middle, "stroke-width": 1 }).style.stroke = paint;
      const boxed = make(group, "rect", { x: across(lower), y: middle - 9, width: Math.max(1, across(upper) - across(lower)), height: 18, "fill-opacity": 0.16, rx: 2 });
      boxed.style.fill = boxed.style.stroke = paint;
      one.values.forEach((value, index) => {
        const dot = make(group, "circle", { cx: across(value), cy: middle + (((index * 7) % 11) - 5) * 1.3, r: 2.1, "fill-opacity": 0.55 });
        dot.style.fill = paint;
      });
      make(group, "line", { x1: across(median), x2: across(median), y1: middle - 9, y2: middle + 9, "stroke-width": 2.6 }).style.stroke = paint;
      const x = across(one.tenth);
      const diamond = make(group, "path", { d: `M${x},${middle - 6}l6,6l-6,6l-6,-6z`, "stroke-width": 1.6 });
      diamond.style.fill = "var(--paper)";
      diamond.style.stroke = paint;
      const area = make(group, "rect", { x: left, y: middle - 16, width: right - left, height: 32, "fill-opacity": 0 });
      const from_best = scale.up > 0 ? [greatest, upper, median, lower, least] : [least, lower, median, upper, greatest];
      const [best, better, middle_, weaker, worst] = from_best.map((value) => fixed(value, digits));
      const read = (event) => show(one.name, [["best", best], ["better quarter", better], ["median", middle_], ["weaker quarter", weaker], ["worst tenth, mean", fixed(one.tenth, digits)], ["worst", worst]], event.clientX, event.clientY);
      area.addEventListener("pointermove", read);
      area.addEventListener("pointerdown", read);
    });
    svg.addEventListener("pointerleave", hide);
  };

  // ---- features on two components ----
  const features = (box, found) => {
    box.replaceChildren();
    const panels = html(box, "div", "panels");
    for (const [kind, title] of [["party", "by party"], ["label", "by label"]]) {
      const panel = html(panels, "div"), groups = found[kind], marks = groups.names.map(() => []);
      html(panel, "h4", "", `Coloured ${title}`);
      const size = Math.max(260, Math.min(460, wide(panel))), edge = 18;
      const svg = canvas(panel, size, size, `${found.x.length} rows coloured ${title}.`);
      const span = (values) => { const low = Math.min(...values), high = Math.max(...values); return (value) => (high > low ? (value - low) / (high - low) : 0.5); };
      const across = span(found.x), up = span(found.y);
      make(svg, "line", { class: "axis", x1: edge, x2: size, y1: size - edge, y2: size - edge });
      make(svg, "line", { class: "axis", x1: edge, x2: edge, y1: 0, y2: size - edge });
      make(svg, "text", { x: size, y: size - 3, "text-anchor": "end" }, `component 1 (${found.explained[0]} % of the variance)`);
      make(svg, "text", { x: 12, y: 0, "text-anchor": "end", transform: "rotate(-90 12 0)" }, `component 2 (${found.explained[1]} %)`);
      const cloud = make(svg, "g");
      found.x.forEach((value, index) => {
        const group = groups.of[index], x = edge + 6 + across(value) * (size - edge - 12), y = size - edge - 6 - up(found.y[index]) * (size - edge - 12);
        const dot = group < 8 ? make(cloud, "circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.6 }) : make(cloud, "rect", { x: (x - 2.3).toFixed(1), y: (y - 2.3).toFixed(1), width: 4.6, height: 4.6 });
        dot.style.fill = group < 0 ? "var(--line)" : colour(group);
        dot.style.fillOpacity = 0.62;
        if (group >= 0) marks[group].push(dot);
      });
      const row = html(panel, "div", "legend");
      row.setAttribute("role", "group");
      row.setAttribute("aria-label", `Bring out ${kind}`);
      let chosen = -1;
      const buttons = groups.names.map((name, group) => {
        const button = html(row, "button");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        const sample = make(button, "svg", { viewBox: "0 0 10 10", "aria-hidden": "true" });
        sample.style.width = "10px";
        make(sample, group < 8 ? "circle" : "rect", group < 8 ? { cx: 5, cy: 5, r: 4.5 } : { x: 1, y: 1, width: 8, height: 8 }).style.fill = colour(group);
        button.append(clipped(name, 22));
        button.addEventListener("click", () => {
          chosen = chosen === group ? -1 : group;
          buttons.forEach((one, index) => one.setAttribute("aria-pressed", String(chosen < 0 || chosen === index)));
          marks.forEach((dots, index) => dots.forEach((dot) => {
            dot.style.fillOpacity = chosen < 0 ? 0.62 : index === chosen ? 0.9 : 0.06;
            if (index === chosen) cloud.append(dot);
          }));
        });
        return button;
      });
      if (groups.others) html(row, "small", "", `grey: ${groups.others} others`);
    }
  };

  // ---- drawing a section, when it is first seen ----
  const drawn = new Set();
  const draw = (section) => {
    const found = DATA.settings[Number(section.dataset.number) - 1];
    const metric = section.querySelector("[data-metric][aria-pressed=true]")?.dataset.metric || "score";
    const redraw = () => sections.filter((one) => drawn.has(one)).forEach(draw);
    const none = "No algorithm here has values of this: test rows need a global model.";
    const using = { place, hidden, redraw, what: "Algorithms", none };
    const first = !drawn.has(section);
    drawn.add(section);
    for (const box of section.querySelectorAll("[data-chart]")) {
      const kind = box.dataset.chart;
      if (kind === "curves") charts.lines(box, found.lines.map((one) => ({ name: one.name, x: one[metric].round, mean: one[metric].mean, std: one[metric].std })), "round", found.scales[metric], { ...using, target: metric === "score" ? found.target : null });
      if (kind === "bytes") charts.lines(box, found.lines.map((one) => ({ name: one.name, x: one.score.sent, mean: one.score.mean, std: one.score.std })), "megabytes sent", found.scales.score, { ...using, target: found.target });
      if (kind === "heat" && found.heat) heat(box, found.heat);
      if (kind === "fair" && found.fair.length) fair(box, found.fair, found.scales.score);
      if (kind === "features" && found.features && (first || box.dataset.width !== String(wide(box)))) { features(box, found.features); box.dataset.width = String(wide(box)); }
    }
  };

  for (const section of sections) for (const button of section.querySelectorAll("[data-metric]")) button.addEventListener("click", () => {
    section.querySelectorAll("[data-metric]").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    hide();
    draw(section);
  });

  const many = sections.length > 1;
  document.body.classList.toggle("many", many);
  const open = (number, scroll) => {
    const section = sections[number - 1];
    if (!section) return;
    hide();
    sections.forEach((one) => one.classList.toggle("open", one === section));
    document.querySelectorAll(".chooser a").forEach((one) => (Number(one.dataset.number) === number ? one.setAttribute("aria-current", "true") : one.removeAttribute("aria-current")));
    draw(section);
    if (scroll) (document.querySelector(".chooser") || section).scrollIntoView();
  };
  const wanted = () => {
    const number = Number((location.hash.match(/^#s(\d+)$/) || [])[1] || 0);
    return number <= sections.length ? number : 0;
  };
  let quiet = false;
  document.querySelectorAll(".chooser a").forEach((one) => one.addEventListener("click", () => { quiet = wanted() !== Number(one.dataset.number); }));
  addEventListener("hashchange", () => { if (wanted()) open(wanted(), !quiet); quiet = false; });
  if (sections.length) open(wanted() || 1, wanted() > 0);

  let waiting = 0, before = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === before) return; // a phone's address bar only changes the height
    before = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(() => { hide(); const now = sections.filter((one) => !many || one.classList.contains("open")); drawn.clear(); now.forEach(draw); }, 120);
  });
  addEventListener("beforeprint", () => { hide(); sections.filter((one) => !drawn.has(one)).forEach(draw); });
})();
