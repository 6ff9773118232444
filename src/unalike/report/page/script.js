"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4"];
  const hidden = new Set();
  const tip = document.getElementById("tip");
  const sections = [...document.querySelectorAll(".setting")];

  // ---- small helpers; text only ever enters as text ----
  const make = (parent, name, attributes = {}, words) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (words !== undefined) made.textContent = words;
    parent.append(made);
    return made;
  };
  const html = (parent, name, className, words) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (words !== undefined) made.textContent = words;
    parent.append(made);
    return made;
  };
  const place = (name) => DATA.places[name] || 0;
  const colour = (number) => `var(--c${number % 8})`;
  const dash = (number) => DASHES[(number + Math.floor(number / 8)) % DASHES.length];
  const known = (value) => value !== null && value !== undefined;
  const wide = (box) => Math.max(280, Math.round(box.clientWidth || document.querySelector("main").clientWidth));
  const written = (value) => {
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
    return size >= 100 ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : String(+value.toPrecision(3));
  };
  const fixed = (value, digits) => (known(value) ? value.toFixed(digits) : "–");
  const bounds = (scale) => [known(scale.low) ? scale.low : -Infinity, known(scale.high) ? scale.high : Infinity];
  const clipped = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);
  const ticks = (low, high, wanted) => {
    const raw = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw) || power;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(+at.toPrecision(10));
    return found;
  };
  const canvas = (box, width, height, label) => {
    box.querySelector("svg.plot")?.remove();
    const made = make(box, "svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": label });
    made.style.maxWidth = `${width}px`; // paper is wider: letters keep their size there
    return made;
  };

  // ---- the box with values beside the pointer ----
  const show = (title, rows, x, y) => {
    tip.replaceChildren();
    html(tip, "b", "", title);
    for (const [name, value, paint] of rows) {
      const row = html(tip, "div"), left = html(row, "span");
      if (paint) html(left, "i").style.setProperty("--c", paint);
      left.append(name);
      html(row, "span", "", value);
    }
    tip.hidden = false;
    const edge = document.documentElement.clientWidth, size = tip.getBoundingClientRect();
    const beside = x + 14 + size.width > edge ? x - 14 - size.width : x + 14;
    tip.style.left = `${Math.max(4, Math.min(beside, edge - size.width - 4)) + scrollX}px`;
    tip.style.top = `${Math.max(4, y - size.height / 2) + scrollY}px`;
  };
  const hide = () => { tip.hidden = true; };

  // ---- lines with bands: by round, and by megabytes ----
  const legend = (box, names, redraw) => {
    let row = box.querySelector(".legend");
    if (!row) { row = html(box, "div", "legend"); row.setAttribute("role", "group"); row.setAttribute("aria-label", "Algorithms"); }
    if (row.childElementCount === names.length) {
      [...row.children].forEach((one, index) => one.setAttribute("aria-pressed", String(!hidden.has(names[index]))));
      return;
    }
    row.replaceChildren();
    for (const name of names) {
      const button = html(row, "button");
      button.type = "button";
      button.dataset.algorithm = name;
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      const sample = make(button, "svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
      make(sample, "line", { x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": dash(place(name)) }).style.stroke = colour(place(name));
      button.append(name);
      button.addEventListener("click", () => { hidden.has(name) ? hidden.delete(name) : hidden.add(name); hide(); redraw(); });
    }
  };

  // All lines and bands fit, but for points far beyond all others: a diverged run would make a flat line of the rest.
  const range = (series) => {
    const means = series.flatMap((one) => one.mean.filter(known)).sort((a, b) => a - b);
    if (!means.length) return [0, 1];
    const at = (part) => means[Math.round(part * (means.length - 1))];
    const far = at(0.97) > 0 ? 4 * at(0.97) : Infinity, deep = at(0.03) < 0 ? 4 * at(0.03) : -Infinity;
    let low = Math.max(means[0], deep), high = low;
    for (const one of series) one.mean.forEach((mean, index) => {
      if (!known(mean)) return;
      const std = mean > far || mean < deep ? 0 : one.std[index] || 0;
      low = Math.min(low, Math.max(mean, deep) - std);
      high = Math.max(high, Math.min(mean, far) + std);
    });
    if (!(high > low)) { low -= 0.5; high += 0.5; }
    const pad = 0.04 * (high - low);
    return [low - pad, high + pad];
  };

  // A scale says what is drawn upwards: its name, digits, the bounds of its values (or null), and whether more is better.
  const lines = (box, series, x_name, scale, redraw, target) => {
    const { name: y_name, digits } = scale;
    legend(box, series.map((one) => one.name), redraw);
    const shown = series.filter((one) => !hidden.has(one.name) && one.x.length);
    const width = wide(box), height = Math.round(Math.min(400, Math.max(250, width * 0.46)));
    const ends = shown.map((one) => `${one.name} ends at ${fixed(one.mean[one.mean.length - 1], digits)}`);
    const svg = canvas(box, width, height, `${y_name} by ${x_name}. ${ends.join("; ") || "nothing is shown"}.`);
    if (!shown.length) {
      const none = series.some((one) => one.x.length) ? "All algorithms are hidden." : "No algorithm here has values of this: test rows need a global model.";
      make(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, none);
      return;
    }
    let [low, high] = range(shown);
    const [least, most] = bounds(scale); // no value is beyond, though mean and deviation may add up to more
    low = Math.max(least, low);
    high = Math.min(high, most + 0.04 * (most - low));
    const left = 46, right = width - 10, top = 22, bottom = height - 38;
    const first = x_name === "round" ? Math.min(...shown.map((one) => one.x[0])) : 0;
    const last = Math.max(...shown.map((one) => one.x[one.x.length - 1]), first + 1e-9);
    const across = (value) => left + ((value - first) / (last - first || 1)) * (right - left);
    const up = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
    const clip = `clip${Math.random().toString(36).slice(2)}`;
    make(make(make(svg, "defs"), "clipPath", { id: clip }), "rect", { x: left - 5, y: top - 4, width: right - left + 10, height: bottom - top + 8 });
    make(svg, "text", { x: 0, y: 10 }, y_name);
    for (const at of ticks(low, high, 5)) {
      make(svg, "line", { class: "grid", x1: left, x2: right, y1: up(at), y2: up(at) });
      make(svg, "text", { x: left - 8, y: up(at) + 4, "text-anchor": "end" }, written(at));
    }
    for (const at of ticks(first, last, width < 480 ? 4 : 8)) {
      if (x_name === "round" && at % 1) continue;
      make(svg, "text", { x: across(at), y: bottom + 18, "text-anchor": "middle" }, written(at));
    }
    make(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
    make(svg, "text", { x: right, y: bottom + 35, "text-anchor": "end" }, x_name);
    const inside = make(svg, "g", { "clip-path": `url(#${clip})` });
    if (known(target) && target > low && target < high) {
      make(inside, "line", { class: "axis", x1: left, x2: right, y1: up(target), y2: up(target), "stroke-dasharray": "1 4" });
    }
    for (const one of shown) {
      if (!one.std.length) continue;
      const there = one.mean.map((mean, index) => index).filter((index) => known(one.mean[index]));
      const edge = (sign) => (index) => {
        const value = Math.max(least, Math.min(most, one.mean[index] + sign * (one.std[index] || 0)));
        return `${across(one.x[index]).toFixed(1)},${up(value).toFixed(1)}`;
      };
      const points = [...there.map(edge(1)), ...there.reverse().map(edge(-1))];
      make(inside, "polygon", { points: points.join(" "), "fill-opacity": 0.13, class: "band" }).style.fill = colour(place(one.name));
    }
    for (const one of shown) {
      let path = "", pen = "M";
      one.mean.forEach((mean, index) => {
        if (!known(mean)) { pen = "M"; return; }
        path += `${pen}${across(one.x[index]).toFixed(1)},${up(mean).toFixed(1)}`;
        pen = "L";
      });
      const drawn = make(inside, "path", { d: path, fill: "none", "stroke-width": 1.9, "stroke-linejoin": "round", "stroke-dasharray": dash(place(one.name)), "data-line": one.name });
      drawn.style.stroke = colour(place(one.name));
      const alone = one.mean.filter(known).length === 1; // a line of one point would not be seen
      if (alone) one.mean.forEach((mean, index) => {
        if (known(mean)) make(inside, "circle", { cx: across(one.x[index]), cy: up(mean), r: 4, class: "alone" }).style.fill = colour(place(one.name));
      });
    }
    if (known(target) && target > low && target < high) make(svg, "text", { x: right, y: 10, "text-anchor": "end" }, `···· target ${written(target)}${scale.unit}`);
    const cursor = make(svg, "g", { visibility: "hidden" });
    const rule = make(cursor, "line", { class: "axis", y1: top, y2: bottom });
    const dots = shown.map((one) => { const dot = make(cursor, "circle", { r: 3.5 }); dot.style.fill = colour(place(one.name)); return dot; });
    const stops = [...new Set(shown.flatMap((one) => one.x))].sort((a, b) => a - b);
    let here = -1;
    const nearest = (values, value) => {
      let best = 0;
      values.forEach((each, index) => { if (Math.abs(each - value) < Math.abs(values[best] - value)) best = index; });
      return best;
    };
    const point = (index) => {
      here = Math.max(0, Math.min(stops.length - 1, index));
      const at = stops[here], area = svg.getBoundingClientRect(), shrunk = area.width / width;
      cursor.setAttribute("visibility", "visible");
      rule.setAttribute("x1", across(at));
      rule.setAttribute("x2", across(at));
      const rows = shown.map((one, number) => {
        const index_ = nearest(one.x, at), mean = one.mean[index_];
        const far = Math.abs(one.x[index_] - at) > (last - first) / 40;
        dots[number].setAttribute("visibility", far || !known(mean) ? "hidden" : "inherit");
        if (far || !known(mean)) return [one.name, "–", colour(place(one.name))];
        dots[number].setAttribute("cx", across(one.x[index_]));
        dots[number].setAttribute("cy", Math.max(top, Math.min(bottom, up(mean))));
        const std = known(one.std[index_]) ? ` ± ${fixed(one.std[index_], digits)}` : "";
        return [one.name, fixed(mean, digits) + std, colour(place(one.name)), mean];
      }).sort((a, b) => (known(b[3]) ? scale.up * b[3] : -Infinity) - (known(a[3]) ? scale.up * a[3] : -Infinity));
      show(x_name === "round" ? `round ${at}` : `${written(at)} ${x_name}`, rows, area.left + across(at) * shrunk, area.top + area.height / 3);
    };
    const leave = () => { cursor.setAttribute("visibility", "hidden"); here = -1; hide(); };
    const follow = (event) => {
      const area = svg.getBoundingClientRect();
      const value = first + (((event.clientX - area.left) * (width / area.width) - left) / (right - left)) * (last - first);
      point(nearest(stops, value));
    };
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const jump = { ArrowRight: here + 1, ArrowLeft: here < 0 ? stops.length - 1 : here - 1, Home: 0, End: stops.length - 1 }[event.key];
      if (event.key === "Escape") leave();
      if (jump === undefined) return;
      event.preventDefault();
      point(jump);
    });
  };

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
    const again = () => sections.filter((one) => drawn.has(one)).forEach(draw);
    const first = !drawn.has(section);
    drawn.add(section);
    for (const box of section.querySelectorAll("[data-chart]")) {
      const kind = box.dataset.chart;
      if (kind === "curves") lines(box, found.lines.map((one) => ({ name: one.name, x: one[metric].round, mean: one[metric].mean, std: one[metric].std })), "round", found.scales[metric], again, metric === "score" ? found.target : null);
      if (kind === "bytes") lines(box, found.lines.map((one) => ({ name: one.name, x: one.score.sent, mean: one.score.mean, std: one.score.std })), "megabytes sent", found.scales.score, again, found.target);
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

  // ---- light or dark ----
  const root = document.documentElement, button = document.getElementById("theme");
  const keep = (value) => { try { value === undefined ? 0 : localStorage.setItem("unalike-theme", value); return localStorage.getItem("unalike-theme"); } catch { return value; } };
  const dress = (value) => {
    value === "light" || value === "dark" ? (root.dataset.theme = value) : delete root.dataset.theme;
    button.textContent = `Theme: ${root.dataset.theme || "as the system"}`;
  };
  button.hidden = false;
  dress(keep());
  button.addEventListener("click", () => {
    const next = { light: "dark", dark: "system" }[root.dataset.theme] || "light";
    keep(next);
    dress(next);
  });
})();
