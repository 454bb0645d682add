// The page's only script: reads the controls, asks this machine's own server, writes the answer. No data, no network.
"use strict";

const byId = (id) => document.getElementById(id);
const names = ["epsilon", "delta", "n", "d", "relation", "model", "target_risk"];
// A slider holds 100·log10 of its number.
const sliders = { epsilon: (v) => Number((10 ** (v / 100)).toPrecision(3)), n: (v) => Math.round(10 ** (v / 100)), d: (v) => Math.round(10 ** (v / 100)) };
let waiting = null;
let turn = 0;

function query() {
  const found = new URLSearchParams();
  for (const name of names) {
    const value = byId(name).value.trim();
    if (value !== "") found.set(name, value);
  }
  return found.toString();
}

function cell(tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  if (tag === "th") made.scope = "row";
  return made;
}

function fill(id, rows) {
  const body = byId(id).querySelector("tbody");
  body.replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  }));
}

function short(value) {
  return value === null || value === undefined ? "no bound" : Number(value.toPrecision(3)).toString();
}

function percent(share) {
  const text = (100 * share).toFixed(1);
  return (text === "100.0" && share < 1 ? (100 * share).toFixed(5) : text) + " %";
}

function show(found) {
  byId("sentence").textContent = found.odds_sentence;
  fill("beliefs", found.odds.beliefs.map((row) => [
    cell("td", percent(row.before), "n"), cell("td", percent(row.after_at_least), "n"), cell("td", percent(row.after_at_most), "n")]));
  byId("mechanism").textContent = found.mechanism;
  byId("ratio").textContent = found.noise_ratio === null ? "" : "Noise ratio " + short(found.noise_ratio) + " (above 0.1 it starts to hurt).";
  byId("expected").hidden = !found.expected;
  if (found.expected) {
    byId("expected-sentence").textContent = found.expected.sentence;
    band(found.expected);
  }
  showPlan(found);
  byId("python").textContent = found.python;
  byId("command").textContent = found.command;
}

function showPlan(found) {
  byId("warnings").hidden = found.warnings.length === 0;
  byId("warnings").textContent = found.warnings.join(" ");
  byId("explanation").textContent = found.explanation === null ? "Computing…" : found.explanation;
}

// The loss of a score against a fit without privacy, from a little above it to far below, with the band of eight fits in ten.
function band(loss) {
  const least = Math.min(-0.01, loss.low), most = Math.max(0.02, loss.high) * 1.05;
  const x = (v) => 24 + 432 * (v - least) / (most - least);
  const mark = (v, text) => draw("text", { x: x(v), y: 58, "text-anchor": "middle" }, text);
  const parts = [
    draw("line", { x1: 24, x2: 456, y1: 26, y2: 26, stroke: "var(--line)" }),
    draw("line", { x1: x(0), x2: x(0), y1: 10, y2: 42, stroke: "var(--soft)", "stroke-dasharray": "4 4" }),
    mark(0, loss.curves ? "at ε = 3" : "without privacy"),
    draw("text", { x: 456, y: 58, "text-anchor": "end" }, short(most) + " worse →"),
  ];
  if (!loss.beyond) parts.push(draw("rect", { x: x(loss.low), y: 18, width: Math.max(x(loss.high) - x(loss.low), 1), height: 16, fill: "var(--bar)", "fill-opacity": 0.35 }));
  parts.push(draw("circle", { cx: x(loss.value), cy: 26, r: 6, fill: "var(--bar)" }));
  byId("band").setAttribute("aria-label", loss.sentence);
  byId("band").replaceChildren(...parts);
}

function showBounds(found, mechanism) {
  fill("risks", Object.keys(found.predicted_risk).map((name) => {
    const size = found.sample_size ? found.sample_size[name] : null;
    return [cell("th", name), cell("td", short(found.predicted_risk[name]), "n"), cell("td", size === null || size === undefined ? "no bound" : size.toLocaleString("en"), "n")];
  }));
  fill("alternatives", found.alternatives.map((row) => [
    cell("th", row.mechanism + (row.mechanism === mechanism ? " (chosen)" : "")),
    cell("td", row.needs.length ? "needs " + row.needs.join("; ") : "yes")]));
}

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function chart(found, epsilon) {
  const box = { left: 78, right: 448, top: 12, bottom: 250 };
  const values = Object.values(found.risks).flat().filter((v) => v !== null && v > 0);
  byId("chart").parentElement.hidden = values.length === 0;
  if (values.length === 0) { byId("chart").replaceChildren(); byId("legend").replaceChildren(); return; }
  const log = Math.log10;
  const xs = [log(found.epsilon[0]), log(found.epsilon[found.epsilon.length - 1])];
  const ys = [Math.floor(log(Math.min(...values))), Math.ceil(log(Math.max(...values)))];
  if (ys[0] === ys[1]) ys[1] += 1;
  const x = (v) => box.left + (box.right - box.left) * (log(v) - xs[0]) / (xs[1] - xs[0]);
  const y = (v) => box.bottom - (box.bottom - box.top) * (log(v) - ys[0]) / (ys[1] - ys[0]);
  const parts = [draw("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "none", stroke: "var(--line)" })];
  for (let k = ys[0]; k <= ys[1]; k += 1) {
    parts.push(draw("line", { x1: box.left, x2: box.right, y1: y(10 ** k), y2: y(10 ** k), stroke: "var(--line)" }));
    parts.push(draw("text", { x: box.left - 6, y: y(10 ** k) + 4, "text-anchor": "end" }, (10 ** k).toPrecision(1)));
  }
  const marks = [[found.epsilon[0], "start"], [epsilon, "middle"], [found.epsilon[found.epsilon.length - 1], "end"]];
  for (const [v, anchor] of marks) {
    parts.push(draw("text", { x: x(v), y: box.bottom + 18, "text-anchor": anchor }, short(v)));
  }
  parts.push(draw("text", { x: (box.left + box.right) / 2, y: box.bottom + 40, "text-anchor": "middle" }, "privacy budget ε"));
  const middle = (box.top + box.bottom) / 2;
  parts.push(draw("text", { x: 16, y: middle, "text-anchor": "middle", transform: "rotate(-90 16 " + middle + ")" }, "predicted excess risk"));
  parts.push(draw("line", { x1: x(epsilon), x2: x(epsilon), y1: box.top, y2: box.bottom, stroke: "var(--soft)", "stroke-dasharray": "4 4" }));
  const legend = [];
  Object.entries(found.risks).forEach(([name, risks], k) => {
    const points = risks.map((v, i) => [found.epsilon[i], v]).filter(([, v]) => v !== null && v > 0);
    if (points.length === 0) return;
    parts.push(draw("polyline", { points: points.map(([e, v]) => x(e).toFixed(1) + "," + y(v).toFixed(1)).join(" "), fill: "none", "stroke-width": 2, class: "k" + k }));
    const item = cell("li", name, "k" + k);
    const swatch = draw("svg", { viewBox: "0 0 36 8", "aria-hidden": "true" });
    swatch.append(draw("line", { x1: 0, x2: 36, y1: 4, y2: 4, "stroke-width": 3, class: "k" + k }));
    item.prepend(swatch);
    legend.push(item);
  });
  byId("chart").replaceChildren(...parts);
  byId("legend").replaceChildren(...legend);
}

async function ask(path, text, mine) {
  for (;;) {
    const reply = await fetch(path + "?" + text, { credentials: "omit" });
    const found = await reply.json();
    if (mine !== turn) return null; // a later move overtook this one
    if (reply.ok) return found;
    if (reply.status !== 409) throw new Error(found.error || "no answer");
    await new Promise((done) => setTimeout(done, 300)); // another window asked in between
  }
}

// What is on the page always belongs to the controls: parts that are not answered yet, and all of them under an error, are hidden.
async function refresh() {
  const mine = ++turn;
  const text = query();
  const result = byId("result");
  history.replaceState(null, "", "?" + text);
  result.setAttribute("aria-busy", "true");
  byId("bounds").hidden = true;
  byId("waiting").textContent = "";
  try {
    const found = await ask("/api/glance", text, mine);
    if (found === null) return;
    show(found);
    byId("status").className = "";
    byId("status").textContent = "";
    byId("plan").hidden = false;
    result.dataset.planned = text;
    if (found.explanation === null) {
      const plan = await ask("/api/plan", text, mine);
      if (plan === null) return;
      showPlan(plan);
    }
    byId("waiting").textContent = "Computing worst-case bounds…";
    const bounds = await ask("/api/bounds", text, mine);
    if (bounds === null) return;
    showBounds(bounds, found.mechanism);
    const curve = await ask("/api/curve", text, mine);
    if (curve === null) return;
    chart(curve, found.epsilon);
    byId("bounds").hidden = false;
  } catch (error) {
    if (mine !== turn) return;
    byId("plan").hidden = true;
    byId("status").className = "bad";
    byId("status").textContent = error.message;
  }
  byId("waiting").textContent = "";
  result.dataset.shown = text;
  result.setAttribute("aria-busy", "false");
}

function later() {
  clearTimeout(waiting);
  waiting = setTimeout(refresh, 30);
}

function moved(name) {
  if (sliders[name]) byId(name + "-slider").value = Math.round(100 * Math.log10(Number(byId(name).value) || 1));
  if (byId("result").dataset.shown !== query()) later();
}
// Some ways to move a control fire only one of the two events.
for (const name of names) for (const kind of ["input", "change"]) byId(name).addEventListener(kind, () => moved(name));
for (const name of Object.keys(sliders)) byId(name + "-slider").addEventListener("input", (event) => {
  byId(name).value = sliders[name](Number(event.target.value));
  later();
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());

for (const kind of ["python", "command"]) byId("copy-" + kind).addEventListener("click", async (event) => {
  const button = event.currentTarget;
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(byId(kind).textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(byId(kind)); // no clipboard here: the text is marked instead
    button.textContent = "Press Ctrl-C";
  }
  setTimeout(() => { button.textContent = words; }, 1500);
});

// The controls from the page's address, else from the fitted model, else as they stand.
function set(values) {
  for (const name of names) {
    if (values[name] === undefined || values[name] === null) continue;
    const control = byId(name);
    const value = String(values[name]);
    const known = control.tagName !== "SELECT" || [...control.options].some((o) => o.value === value);
    if (!known && name === "delta" && Number(value) >= 0) control.add(new Option(value, value));
    if (known || name === "delta") control.value = value;
    if (sliders[name]) byId(name + "-slider").value = Math.round(100 * Math.log10(Number(control.value) || 1));
  }
}

fetch("/api/model").then((reply) => reply.json()).then((found) => {
  byId("fitted").hidden = !found.fitted;
  byId("opened").textContent = found.fitted;
  set(location.search ? Object.fromEntries(new URLSearchParams(location.search)) : found.values);
  refresh();
});
