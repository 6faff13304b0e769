"use strict";
// The live page: listens to /events and shows what it hears.  No build step, no other file than uPlot.

const PHASES = { fit: ["starting", "aligning", "training", "done"], coordinator: ["starting", "aligning", "waiting", "training", "comparing", "done"],
  blind: ["starting", "waiting", "training", "done"], party: ["starting", "waiting", "aligning", "training", "comparing", "done"], serve: ["starting", "waiting", "serving"] };
const MOST = 4000; // points that the page keeps; beyond, every second one is dropped

const at = (id) => document.getElementById(id);
const make = (tag, text, attributes = {}) => {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};
const fill = (node, children) => node.replaceChildren(...children);
const whole = (n) => n.toLocaleString("en");
const size = (n) => { let u = 0; while (n >= 1000 && u < 3) { n /= 1000; u += 1; } return `${u ? n.toPrecision(3) : n} ${["B", "kB", "MB", "GB"][u]}`; };
const span = (s) => s < 10 ? `${s.toFixed(1)} s` : s < 60 ? `${Math.round(s)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
  : `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
const took = (s) => s < 1 ? `${Math.max(1, Math.round(s * 1000))} ms` : span(s);
const clock = (text) => (text || "").slice(11, 19);
const since = (text) => text && text.slice(0, 10) !== new Date().toISOString().slice(0, 10) ? `${text.slice(0, 10)} ${clock(text)}` : clock(text);
const names = (list) => list.map((p) => p.name).join(", ");

let points = [], over = false, aligned = false, compared = false, curvesDue = false, reportUrl = "";

function headline(s) {
  const away = s.parties.filter((p) => !p.here), late = s.parties.filter((p) => p.late && p.here);
  if (s.phase === "failed" && s.ending.reason === "interrupted") return "Interrupted. The same command resumes the run.";
  if (s.phase === "failed") return `The run has failed: ${s.ending.reason}`;
  if (s.phase === "done") return s.ending && s.ending.converged ? "Done. The model is trained." : `Ended: ${s.ending ? s.ending.reason : ""}`;
  if (s.phase === "comparing") return "The model is trained. What does each partner bring? For the report, the label party trains with one after the other.";
  if (!s.coordinates && away.length && ["training", "serving"].includes(s.phase)) return `Waiting for the coordinator: ${names(away)} is away since ${since(away[0].since)}.`;
  if (s.coordinates && away.length) return `Waiting for ${names(away)}.${s.phase === "serving" ? "" : ` The run ends when a party is away for ${span(s.patience)}.`}`;
  if (late.length) return `${names(late)} ${late.length > 1 ? "are" : "is"} late: everybody waits for the answer.`;
  if (s.phase === "aligning") return s.alignment ? `Finding the common rows: ${whole(s.alignment.blinded)} of ${whole(s.alignment.of)} ids, about ${span(s.alignment["seconds left"])} left.`
    : "Finding the common rows.";
  if (s.phase === "waiting") return s.coordinates ? "Everybody is here." : "Waiting for the coordinator.";
  if (s.phase === "training") return s.round ? `Training: round ${whole(s.round)}${s.seconds_left !== null ? `, about ${span(s.seconds_left)} left` : ""}.` : s.coordinates ? "Training begins." : "Connected. Round 1 comes when everybody is here.";
  if (s.phase === "serving") return s.coordinates ? "Serving scores. Everybody is here." : "Answering: every client asks the coordinator.";
  return "Starting.";
}

function showPhases(s) {
  aligned = aligned || s.phase === "aligning";
  compared = compared || s.phase === "comparing";
  const also = { aligning: aligned, comparing: compared, starting: s.phase === "starting" };
  const all = (PHASES[s.program] || PHASES.fit).filter((p) => also[p] ?? true);
  const shown = s.phase === "failed" ? [...all.filter((p) => p !== "done"), "failed"] : all;
  const now = shown.indexOf(s.phase);
  fill(at("phases"), shown.map((name, i) => make("li", name, i === now ? { "aria-current": "step", class: name } : i < now && s.phase !== "failed" ? { class: "past" } : {})));
}

function card(name, value, more) {
  const box = make("div", null, { class: "card" });
  box.append(make("dt", name), make("dd", value));
  if (more) box.append(make("span", more, { class: "more" }));
  return box;
}

function showCards(s) {
  const cards = [];
  if (s.rows) cards.push(card("rows", whole(s.rows)));
  if (s.max_rounds !== null) {
    const limit = s.rounds_expected && s.phase === "training" ? `of about ${whole(s.rounds_expected)}` : `at most ${whole(s.max_rounds)}`;
    cards.push(card("rounds", whole(s.round), limit));
    cards.push(card("time", span(s.seconds), s.phase === "training" && s.rate ? (s.rate >= 1 ? `${s.rate.toPrecision(3)} rounds a second` : `${span(1 / s.rate)} a round`) : ""));
    if (s.phase === "training") cards.push(card("time left", s.seconds_left === null ? "not known" : span(s.seconds_left), "as far as can be told"));
    if (s.objective !== null) cards.push(card("objective", s.objective.toPrecision(6)));
    cards.push(card(s.coordinates ? "sent in rounds, to all" : "received in rounds", size(s.bytes_down)));
    cards.push(card(s.coordinates ? "received in rounds, from all" : "sent in rounds", size(s.bytes_up)));
  }
  if (s.requests !== null) {
    cards.push(card("requests answered", whole(s.requests.answered)), card("requests refused", whole(s.requests.refused)));
    if (s.requests.middle !== null) cards.push(card("time of an answer", took(s.requests.middle), `longest of the last thousand: ${took(s.requests.longest)}`));
  }
  fill(at("cards"), cards);
  const bar = at("bar"), known = s.max_rounds !== null && s.rounds_expected !== null;
  bar.hidden = !known;
  if (known) bar.value = s.phase === "done" ? 1 : Math.min(1, s.round / s.rounds_expected);
}

function party(p, done, coordinates) {
  const row = make("tr"), state = make("td");
  const [text, kind] = done && !coordinates ? ["has given the results", ""] : done && !p.here ? ["has its results", ""] : !p.here ? [`away${p.away >= 1 ? ` for ${span(p.away)}` : ""}`, p.late ? "late" : "wait"]
    : p.awaited > 1 ? [`its answer is awaited for ${span(p.awaited)}`, p.late ? "late" : "wait"] : ["connected", ""];
  state.append(make("span", text, { class: `badge ${kind}` }));
  row.append(make("th", p.name, { scope: "row" }), state, make("td", since(p.since)),
    make("td", p.took === null ? "" : took(p.took), { class: "number coordinator-only training-only" }), make("td", p.fingerprint, { class: "mono coordinator-only" }));
  return row;
}

function showParties(s) {
  const rows = s.parties.map((p) => party(p, s.phase === "done", s.coordinates));
  for (const name of s.local) {
    const row = make("tr"), state = make("td");
    state.append(make("span", "in this program", { class: "badge" }));
    row.append(make("th", name, { scope: "row" }), state, make("td"), make("td", "", { class: "training-only" }), make("td"));
    rows.unshift(row);
  }
  fill(at("parties"), rows);
}

function showLog(s) {
  const log = at("log"), below = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  fill(log, s.log.map(([time, text]) => { const line = make("div"); line.append(make("time", clock(time)), text); return line; }));
  if (below) log.scrollTop = log.scrollHeight;
}

async function showEnd(s) {
  if (!s.report || reportUrl || !(s.phase === "done" || s.phase === "serving")) return;
  reportUrl = "asked";
  const answer = await fetch("report");
  if (!answer.ok) { reportUrl = ""; return; }
  reportUrl = URL.createObjectURL(await answer.blob()); // stays when the program has ended
  const link = make("a", "Read the report", { href: reportUrl, target: "_blank", id: "report" });
  fill(at("finished"), [link, document.createTextNode(`, or open the file ${s.report}`)]);
  at("finished").hidden = false;
}

function showState(s) {
  showPhases(s);
  const words = headline(s);
  if (at("headline").textContent !== words) at("headline").textContent = words; // a screen reader says it only when it changes
  document.title = `${s.phase}: ${s.job}, ${s.name}`;
  at("run").textContent = s.run ? `, run ${s.run}` : "";
  showCards(s);
  showParties(s);
  for (const key of ["revealed", "guarantee"]) fill(at(key), s[key].map((line) => make("li", line)));
  const warnings = s.warnings.map(([time, text]) => make("div", `${clock(time)} ${text}`, { class: "notice bad" }));
  const box = at("warnings"), said = (nodes) => [...nodes].map((node) => node.textContent).join("\n");
  if (said(warnings) !== said(box.children)) fill(box, warnings);
  showLog(s);
  showEnd(s);
}

const plots = {};
const power = (v) => Math.round(Math.log10(v) * 1e6) / 1e6;
const decades = (u, splits) => { // one line per power of ten, or per few of them where there are many
  const whole = splits.map(power).filter(Number.isInteger), every = Math.ceil(whole.length / 6);
  return splits.map((v) => (Number.isInteger(power(v)) && power(v) % every === 0 ? v : null));
};
const wholes = (u, values) => values.map((v) => (Number.isInteger(v) ? String(v) : "")); // there is no half round
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw({ id, label, hue, xs, ys, logarithmic, xLabel }) {
  const figure = at(`${id}-figure`);
  const shown = logarithmic ? ys.map((y) => (y > 0 ? y : null)) : ys;
  const width = Math.max(240, Math.floor(figure.clientWidth)), axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  if (!plots[id]) {
    const format = (u, values) => values.map((v) => v === null ? "" : logarithmic ? v.toExponential(0) : Math.abs(v) >= 1e4 ? whole(v) : String(+v.toPrecision(6)));
    plots[id] = new uPlot({ width, height: 220, scales: { x: { time: false }, y: logarithmic ? { distr: 3 } : {} }, cursor: { drag: { x: false, y: false } }, legend: { show: false },
      axes: [{ ...axis, label: xLabel, labelSize: 22, ...(xLabel === "round" ? { values: wholes } : {}) }, { ...axis, size: 72, values: format, ...(logarithmic ? { filter: decades, grid: { ...axis.grid, filter: decades }, ticks: { ...axis.ticks, filter: decades } } : {}) }], series: [{}, { label, stroke: colour(hue), width: 2, points: { show: xs.length < 40 } }] }, [xs, shown], at(id));
  } else {
    plots[id].setSize({ width, height: 220 });
    plots[id].setData([xs, shown]);
  }
  const last = shown[shown.length - 1];
  at(id).setAttribute("aria-label", `${label}: now ${last === null ? "not known" : logarithmic ? last.toExponential(1) : last.toPrecision(6)}, after ${xs.length} points`);
}

function drawAll() {
  curvesDue = false;
  at("curves").hidden = points.length < 2;
  if (points.length < 2) return;
  const rounds = points.map((p) => p[0]);
  const charts = [
    { id: "objective", label: "objective", hue: "--blue", xs: rounds, ys: points.map((p) => p[2]), logarithmic: false, xLabel: "round" },
    { id: "residual", label: "distance to the end", hue: "--orange", xs: rounds, ys: points.map((p) => p[3]), logarithmic: true, xLabel: "round" },
    { id: "pace", label: "rounds", hue: "--green", xs: points.map((p) => p[1]), ys: rounds, logarithmic: false, xLabel: "seconds" },
  ];
  const known = charts.filter((c) => c.ys.filter((y) => y !== null && (!c.logarithmic || y > 0)).length > 1);
  for (const c of charts) at(`${c.id}-figure`).hidden = !known.includes(c);
  known.forEach(draw); // after all are in their places: a figure's width depends on how many there are
}

function drawSoon() {
  if (!curvesDue) { curvesDue = true; requestAnimationFrame(drawAll); }
}

function redrawFresh() {
  for (const id of Object.keys(plots)) { plots[id].destroy(); delete plots[id]; }
  drawSoon();
}

const source = new EventSource("events");
source.addEventListener("state", (e) => { at("offline").hidden = true; showState(JSON.parse(e.data)); });
source.addEventListener("curve", (e) => { points = JSON.parse(e.data); drawSoon(); });
source.addEventListener("points", (e) => {
  points.push(...JSON.parse(e.data));
  if (points.length > MOST) points = points.filter((_, i) => i % 2 === 0);
  drawSoon();
});
source.addEventListener("over", () => { over = true; source.close(); fill(at("offline"), ["The program has ended. This page shows the last that it said."]); at("offline").className = "notice"; at("offline").hidden = false; });
source.onerror = () => { if (!over) at("offline").hidden = false; }; // the browser tries again by itself
window.addEventListener("resize", redrawFresh);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawFresh);
