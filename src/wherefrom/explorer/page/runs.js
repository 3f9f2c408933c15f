// Runs: which method to trust over a whole data set, what it costs, and the examples behind the numbers.

import { get } from "./api.js";
import { $, el, fill, options, percent, svg } from "./dom.js";

const root = $("runs");
const SHOWN = 40;

export async function startRuns(known, open) {
  root.hidden = !known.runs.length;
  if (root.hidden || root.childElementCount) return;
  const pick = el("select", { id: "run", "aria-label": "Run" });
  options(pick, known.runs.map((name, place) => [String(place), name]), "0");
  const body = el("div", {});
  fill(root, el("div", { class: "bar" }, el("h2", {}, "Runs"), pick), body);
  const show = async () => draw(body, await get(`/api/runs/${pick.value}`), open);
  pick.addEventListener("change", show);
  await show();
}

function draw(body, run, open) {
  const facts = [`${run.count} examples`, run.accuracy === null ? null : `the model is right on ${percent(run.accuracy)}`,
    `model ${run.model}`, run.finished ? null : "not finished"].filter(Boolean).join(" · ");
  fill(body, el("p", { class: "note" }, facts), board(run), el("div", { class: "bar" }, el("h3", {}, "Faithfulness against cost")), el("div", { class: "scroll" }, scatter(run)), ...withAudit(run, open));
}

// The examples; of an audit's run after the words that the model leans on, each of which shows its examples.
function withAudit(run, open) {
  const list = examples(run, open);
  return run.audit ? [audit(run.audit, list.only), list.element] : [list.element];
}

function audit(found, only) {
  const chips = [];
  const chip = one => {
    const made = el("button", { type: "button", class: "chip", "aria-pressed": "false", title: one.text, onclick: () => {
      const on = made.getAttribute("aria-pressed") !== "true";
      chips.forEach(other => other.setAttribute("aria-pressed", "false"));
      made.setAttribute("aria-pressed", String(on));
      only(on ? one : null);
    } }, one.name, el("small", {}, ` ${one.texts}`));
    chips.push(made);
    return made;
  };
  return el("div", { class: "audit" }, el("div", { class: "bar" }, el("h3", {}, "What the model leans on")),
    el("ul", { class: "findings" }, found.sentences.map(one => el("li", {}, one))),
    found.groups.map(group => el("div", { class: "chips-of" }, el("b", {}, group.name), group.words.map(chip))),
    el("p", { class: "note" }, "A word shows its examples below; an example opens above. Beside a word: in how many texts it is."));
}

function board(run) {
  return el("div", { class: "scroll" }, el("table", { class: "board" },
    el("thead", {}, el("tr", {}, el("th", {}, "method"), el("th", {}, "rank"), run.metrics.map(one => el("th", { title: `${one.better} is better` }, `${one.name} ${one.better === "higher" ? "↑" : "↓"}`)), el("th", {}, "time each"))),
    el("tbody", {}, run.methods.map(row => el("tr", { "data-method": row.name }, el("th", {}, row.name), el("td", {}, row.rank === null ? "–" : row.rank.toFixed(1)),
      row.values.map(value => value === null ? el("td", {}, "–") : el("td", { class: value.best ? "is-best" : value.as_good ? "as-good" : "",
        title: value.low === null ? "" : `95%: ${value.low.toFixed(3)} to ${value.high.toFixed(3)}` }, value.mean.toFixed(3))),
      el("td", {}, seconds(row.seconds)))))),
  el("p", { class: "note" }, "Bold: the best. Underlined: not significantly different from the best."));
}

const seconds = value => value === null || value === undefined ? "–" : value >= 0.1 ? `${value.toFixed(2)} s` : `${(1000 * value).toFixed(1)} ms`;

// The first metric, turned so that up is better, beside the time of one explanation on a logarithmic axis.
function scatter(run) {
  const metric = run.metrics[0], dots = run.methods.filter(row => row.values[0] && row.seconds).map(row => ({ name: row.name, x: Math.log10(row.seconds), y: row.values[0].mean }));
  if (dots.length < 2) return el("p", { class: "note" }, "There are too few methods to compare.");
  const wide = 560, high = 230, left = 50, right = 130, bottom = 30;
  const range = values => { const low = Math.min(...values), top = Math.max(...values); return top > low ? [low, top] : [low - 1, low + 1]; };
  const [x0, x1] = range(dots.map(one => one.x)), [y0, y1] = range(dots.map(one => one.y));
  const up = metric.better === "higher";
  const x = value => left + (wide - left - right) * (value - x0) / (x1 - x0);
  const y = value => 26 + (high - bottom - 26) * (up ? 1 - (value - y0) / (y1 - y0) : (value - y0) / (y1 - y0));
  const made = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "curve scatter", role: "img", "aria-label": `${metric.name} against the time of one explanation` });
  const text = (at, words, anchor = "start") => { const one = svg("text", { x: at[0], y: at[1], "text-anchor": anchor }); one.textContent = words; return one; };
  made.append(svg("line", { x1: left, x2: wide - right + 8, y1: high - bottom + 6, y2: high - bottom + 6, class: "axis" }),
    text([left, high - 8], seconds(10 ** x0)), text([wide - right, high - 8], `${seconds(10 ** x1)} each`, "end"),
    text([left - 6, 29], (up ? y1 : y0).toFixed(2), "end"), text([left - 6, high - bottom], (up ? y0 : y1).toFixed(2), "end"), text([left, 10], `${metric.name} ${up ? "↑" : "↓"}`));
  let last = -99;
  for (const one of [...dots].sort((a, b) => y(a.y) - y(b.y))) {
    const at = Math.max(y(one.y), last + 11);
    last = at;
    made.append(svg("circle", { cx: x(one.x), cy: y(one.y), r: 4, class: "at" }), text([x(one.x) + 8, at + 3], `${one.name} ${one.y.toFixed(2)}`));
  }
  return made;
}

// What people marked is in a box, and announced to screen readers.
const stretch = ([words, marked]) => marked ? el("mark", { class: "people" }, el("span", { class: "unseen" }, "[marked by people: "), words, el("span", { class: "unseen" }, "]")) : words;

function examples(run, open) {
  const labels = [...new Set(run.examples.map(one => one.label).filter(one => one !== null))].sort();
  const wrong = el("input", { type: "checkbox", id: "only-wrong" }), disagree = el("input", { type: "checkbox", id: "only-disagree" });
  const label = el("select", { id: "only-label", "aria-label": "Label" });
  options(label, [["", "every label"], ...labels.map(one => [one, one])], "");
  const list = el("ol", { class: "examples" }), told = el("p", { class: "note", role: "status" });
  let within = null;
  const show = () => {
    const found = run.examples.filter((one, place) => (within === null || within.places.has(place)) && (!wrong.checked || one.wrong) && (!label.value || one.label === label.value)
      && (!disagree.checked || (one.agreement !== null && one.agreement < 0.3)));
    told.textContent = `${within === null ? "" : `“${within.name}”: `}${found.length} of ${run.examples.length} examples${found.length > SHOWN ? `, the first ${SHOWN} shown` : ""}; those on which methods agree least come first.${found.some(one => one.marked?.some(part => part[1])) ? " In boxes: marked by people." : ""}`;
    fill(list, found.slice(0, SHOWN).map(one => el("li", {}, el("button", { type: "button", class: "example", onclick: () => { open(one.text, one.pair, one.target === one.prediction ? null : one.target); scrollTo({ top: 0 }); } },
      el("span", {}, one.marked === null ? one.text : one.marked.map(stretch)), el("small", {}, [one.prediction + (one.wrong ? ` ✗ (${one.label})` : one.label === null ? "" : " ✓"), percent(one.probability),
        one.agreement === null ? null : `agreement ${one.agreement.toFixed(2)}`].filter(Boolean).join(" · "))))));
  };
  for (const one of [wrong, disagree, label]) one.addEventListener("change", show);
  show();
  const only = word => {
    within = word === null ? null : { name: word.name, places: new Set(word.examples) };
    show();
  };
  const element = el("div", {}, el("div", { class: "bar" }, el("h3", {}, "Examples"), el("label", { class: "pick" }, wrong, "wrong"),
    el("label", { class: "pick" }, disagree, "methods disagree"), label), told, list);
  return { element, only };
}
