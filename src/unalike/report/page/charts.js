"use strict";
// Charts, the box with values, and the button for light or dark: shared by the report and by the live page.
const charts = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 4"];
  const tip = document.getElementById("tip");

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
  let reading = null; // the chart and the place on it whose values are shown
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
  const hide = () => { tip.hidden = true; reading = null; };

  // ---- lines with bands: by round, and by megabytes ----
  const legend = (box, names, { place, hidden, redraw, what }) => {
    let row = box.querySelector(".legend");
    if (!row) { row = html(box, "div", "legend"); row.setAttribute("role", "group"); row.setAttribute("aria-label", what); }
    const same = row.childElementCount === names.length && names.every((name, index) => row.children[index].dataset.algorithm === name);
    if (same) {
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
  // ``using``: place (a name's colour and dash), hidden (names), redraw, what (they are), none (why nothing is there), target.
  const lines = (box, series, x_name, scale, using) => {
    const { name: y_name, digits } = scale, { place, hidden, target } = using;
    const before = box.querySelector("svg.plot"), focused = before !== null && before === document.activeElement;
    const read = reading?.box === box ? reading.at : null;
    legend(box, series.map((one) => one.name), using);
    const shown = series.filter((one) => !hidden.has(one.name) && one.x.length);
    const width = wide(box), height = Math.round(Math.min(400, Math.max(250, width * 0.46)));
    const ends = shown.map((one) => `${one.name} ends at ${fixed(one.mean[one.mean.length - 1], digits)}`);
    const svg = canvas(box, width, height, `${y_name} by ${x_name}. ${ends.join("; ") || "nothing is shown"}.`);
    if (!shown.length) {
      const none = series.some((one) => one.x.length) ? `All ${using.what.toLowerCase()} are hidden.` : using.none;
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
      const at = stops[here];
      reading = { box, at };
      const area = svg.getBoundingClientRect(), shrunk = area.width / width;
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
    if (focused) svg.focus({ preventScroll: true });
    if (read !== null) point(nearest(stops, read)); // drawn anew while somebody reads
  };

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

  return { make, html, colour, dash, known, wide, written, fixed, bounds, clipped, ticks, canvas, show, hide, lines };
})();
