// The tab "Answer": a question, passages and an answer; which passages each statement came from, and what happens without
// some of them.

import { post, Refused, stream } from "./api.js";
import { $, either, el, fill, number, options, percent, tips } from "./dom.js";
import { BADGES, SIGNS } from "./panel.js";
import { asking, state, writeAddress } from "./state.js";

const FLOOR = "random";
let known = null;            // what the server says of itself
let shown = null;            // the answer and its passages, as the server cut them
let rows = new Map();        // what each method finds, by its name
let grades = new Map();
let failed = new Map();
let method = null, first = null;  // whose sources are shown, and whose were asked for
let going = null, leaving = null, resting = 0;
let asked = "";              // the request that the result is about

const root = $("answer-tab");
const parts = {};

export function startAnswers(facts, server) {
  known = server;
  if (!root.childElementCount) build();
  if (!state.passages.length && !state.question && facts.asked) {
    state.question = facts.asked.question;
    state.passages = facts.asked.passages.map(one => ({ ...one }));
  }
  drawAsking();
  fade();
}

// What is asked

function build() {
  parts.question = el("textarea", { id: "question", rows: 1, spellcheck: false, placeholder: "Ask a question",
    oninput: event => { state.question = event.target.value; changed(); } });
  parts.passages = el("div", { id: "passages", class: "passages" });
  parts.answer = el("textarea", { id: "given-answer", rows: 1, spellcheck: false, placeholder: "Leave empty: the model answers",
    oninput: event => { state.answer = event.target.value; changed(); } });
  parts.files = el("input", { type: "file", id: "files", multiple: true, class: "unseen", tabindex: "-1", "aria-label": "Text files",
    onchange: event => { addFiles([...event.target.files]); event.target.value = ""; } });
  parts.by = el("fieldset", { class: "either", id: "by" }, el("legend", { class: "unseen" }, "What a source is"));
  parts.method = el("select", { id: "source-method", onchange: event => { state.source_method = event.target.value; changed(); } });
  parts.go = el("button", { type: "button", id: "answer", class: "main", onclick: () => ask() }, "Answer and explain");
  parts.stop = el("button", { type: "button", id: "stop-answer", hidden: true, onclick: stop }, "Stop");
  parts.error = el("p", { id: "answer-error", class: "error", role: "alert", hidden: true });
  parts.progress = el("p", { id: "answer-progress", class: "note", role: "status", "aria-live": "polite" });
  const card = el("section", { class: "card", id: "asking", "aria-label": "Question and passages" },
    el("label", { class: "field" }, el("span", { class: "name" }, "Question"), parts.question),
    parts.passages,
    el("div", { class: "bar" },
      el("button", { type: "button", id: "add-passage", class: "quiet", onclick: () => { addPassage({ name: null, text: "" }); parts.passages.lastElementChild.querySelector("textarea").focus(); } }, "+ passage"),
      el("button", { type: "button", id: "add-files", class: "quiet", onclick: () => parts.files.click() }, "+ text files"), parts.files,
      el("span", { class: "hint" }, "or drop text files here")),
    el("label", { class: "field" }, el("span", { class: "name" }, "Answer to explain"), parts.answer),
    el("div", { class: "bar asking-bar" }, parts.by, el("label", { class: "pick" }, el("span", { class: "name" }, "Method"), parts.method),
      el("span", { class: "grow" }), parts.stop, parts.go),
    parts.error, parts.progress);
  card.addEventListener("dragover", event => { event.preventDefault(); card.classList.add("dropping"); });
  card.addEventListener("dragleave", () => card.classList.remove("dropping"));
  card.addEventListener("drop", event => { event.preventDefault(); card.classList.remove("dropping"); addFiles([...event.dataTransfer.files]); });
  parts.result = el("section", { class: "card", id: "answered", "aria-label": "Answer and its sources", hidden: true });
  parts.compared = el("section", { class: "card", id: "source-methods", "aria-label": "Methods side by side", hidden: true });
  fill(root, card, parts.result, parts.compared);
  tips(parts.result);
}

function drawAsking() {
  parts.question.value = state.question;
  parts.answer.value = state.answer;
  drawPassages();
  either(parts.by, "by", [["sentence", "by sentence"], ["paragraph", "by paragraph"], ["document", "by passage"]], state.by, value => { state.by = value; changed(); });
  if (!known.source_methods.includes(state.source_method)) state.source_method = "auto";
  options(parts.method, [["auto", "automatic"], ...known.source_methods.map(one => [one, one])], state.source_method);
}

const nameOf = (passage, place) => passage.name ?? `passage ${place + 1}`;

function drawPassages() {
  fill(parts.passages, state.passages.map((passage, place) => el("div", { class: "passage-row" },
    el("label", { class: "field" }, el("span", { class: "name" }, nameOf(passage, place)),
      el("textarea", { rows: 2, spellcheck: false, value: passage.text, placeholder: "Paste a passage",
        oninput: event => { passage.text = event.target.value; changed(); } })),
    el("button", { type: "button", class: "quiet", "aria-label": `Remove ${nameOf(passage, place)}`,
      onclick: () => { state.passages.splice(place, 1); drawPassages(); changed(); } }, "×"))));
}

function addPassage(passage) {
  state.passages.push(passage);
  drawPassages();
  changed();
}

// Files become passages with their names. A single empty row makes room for them.
async function addFiles(files) {
  for (const file of files) {
    let text;
    try {
      if (file.size > 4 * known.limits.passages) throw new Error("large");
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch (error) {
      wrong(error.message === "large" ? `${file.name} is larger than the ${known.limits.passages.toLocaleString("en")} characters that the explorer takes.`
        : `${file.name} is not text in UTF-8.`);
      return;
    }
    const taken = new Set(state.passages.map(nameOf));
    let name = file.name.slice(0, 190);
    for (let count = 2; taken.has(name); count++) name = `${file.name.slice(0, 190)} (${count})`;
    if (state.passages.length === 1 && !state.passages[0].text.trim()) state.passages = [];
    addPassage({ name, text });
  }
}

// What is written changes the question: the result is of the last one until it is asked again.
function changed() {
  Object.assign(state, { removed: [], statement: 0 });
  parts.error.hidden = true;
  fade();
  writeAddress();
}

function fade() {
  for (const card of [parts.result, parts.compared]) card.classList.toggle("stale", asked !== JSON.stringify(asking()));
}

function say(text, spinning = false) { fill(parts.progress, spinning ? el("span", { class: "spin" }) : null, text); }

function wrong(text) {
  parts.error.textContent = text;
  parts.error.hidden = false;
}

// Asking

export async function ask() {
  going?.abort();
  leaving?.abort();
  const mine = going = new AbortController();
  parts.error.hidden = true;
  parts.stop.hidden = false;
  say("The model answers …", true);
  writeAddress();
  const wanted = known.source_methods, request = asking();
  try {
    await stream("/api/sources", { ...request, methods: wanted }, mine.signal, found => {
      if (mine !== going) return;
      if (found.waiting) say(`${found.waiting} computations are before this one …`, true);
      if (found.answer) begin(found.answer, request);
      if (found.row) {
        rows.set(found.row.method, found.row);
        first ??= found.row.method;
        method ??= first;
      }
      if (found.without) rows.get(found.without.method).statements[found.without.statement].without = found.without.answer;
      if (found.grade) grades.set(found.grade.method, found.grade);
      if (found.failed) failed.set(found.failed, found.why);
      if (!shown) return;
      const left = wanted.filter(one => !grades.has(one) && !failed.has(one)).length;
      say(rows.size && left ? `${left} of ${wanted.length} methods to come …` : left ? "Removing passages …" : "", left > 0);
      draw();
    });
    if (mine === going && shown) say("");
  } catch (error) {
    if (mine !== going || error.name === "AbortError") return;
    say("");
    if (error instanceof Refused) { clear(); wrong(error.message); }
  } finally {
    if (mine === going) { going = null; parts.stop.hidden = true; if (shown) draw(); if (state.removed.length) leaveOut(); }
  }
}

function clear() {
  shown = null;
  asked = "";
  for (const one of [rows, grades, failed]) one.clear();
  method = first = null;
  parts.result.hidden = parts.compared.hidden = true;
}

function begin(answer, request) {
  clear();
  asked = JSON.stringify(request);
  shown = { ...answer, without: null };
  const count = answer.runs.filter(([, place]) => place !== null).length;
  state.statement = Math.min(state.statement, count - 1);
  state.removed = state.removed.filter(place => place < answer.documents.length);
  parts.result.hidden = parts.compared.hidden = false;
  fade();
}

function stop() {
  going?.abort();
  going = null;
  parts.stop.hidden = true;
  say("Stopped.");
  if (shown) draw();
}

// Showing

function draw() {
  drawResult();
  drawMethods();
}

function choose(statement) {
  state.statement = statement;
  writeAddress();
  draw();
  parts.result.querySelector(`[data-statement="${statement}"]`)?.focus();
}

const listed = places => places.map(place => rows.get(method).names[place]).join(", ");
const signed = (score, full) => number(score, full);
const drops = place => rows.get("leave_one_out")?.statements[state.statement].drops?.[place];

function drawResult() {
  const open = new Map([...parts.result.querySelectorAll("details[data-document]")].map(one => [one.dataset.document, one.open]));
  const found = rows.get(method)?.statements[state.statement];
  fill(parts.result,
    el("p", { class: "eyebrow" }, shown.generated ? "The model answers" : "The answer"),
    el("p", { id: "statements", class: "statements", role: "group", "aria-label": "Statements of the answer; choose one to see its sources" },
      shown.runs.map(([text, place]) => place === null ? text : statementButton(text, place))),
    ...shown.notes.map(note => el("p", { class: "note" }, note)),
    found ? el("div", { id: "found", "aria-live": "polite" }, verdictOf(found), topOf(found)) : el("p", { class: "note" }, el("span", { class: "spin" }), "Removing passages …"),
    el("h2", {}, "Passages"),
    el("p", { class: "hint" }, "Untick a passage to see the answer without it."),
    el("div", { id: "documents" }, shown.documents.map((one, place) => documentOf(one, place, found, open.get(String(place)) ?? true))),
    withoutOf());
}

function statementButton(text, place) {
  const count = shown.runs.filter(([, one]) => one !== null).length;
  return el("button", { type: "button", class: "statement", "data-statement": place, "aria-pressed": String(place === state.statement),
    onclick: () => choose(place),
    onkeydown: event => {
      const to = place + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN);
      if (to >= 0 && to < count) { event.preventDefault(); choose(to); }
    } }, text);
}

// Whether the statement came from the passages, and whether its sources pass their test, in words.
function verdictOf(found) {
  const tested = found.verdict ? [badge(found.verdict), " ", capital(found.test)] : ["No source has a positive score, so there is nothing to test."];
  return el("div", { class: "told" },
    el("p", {}, el("span", { class: `badge ${found.grounded ? "supported" : "not"}` }, found.grounded ? "✓ grounded" : "✗ not from the passages"), " ", found.grounding),
    el("p", {}, tested),
    found.without === null ? null : el("p", {}, "Without it the model answers: ", el("q", {}, found.without)),
    el("p", { class: "note" }, `Probability of the statement: ${chance(found.log_probability, found.tokens)}. Sources by ${method}.`));
}

// A long statement is improbable as a whole, so its mean probability by token is given, too.
const chance = (log, tokens) => `${percent(Math.exp(log))}${tokens > 1 ? ` (${percent(Math.exp(log / tokens))} per token)` : ""}`;
const badge = verdict => el("span", { class: `badge ${BADGES[verdict]}` }, SIGNS[verdict]);
const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

function topOf(found) {
  const names = rows.get(method).names, full = Math.max(...found.scores.map(Math.abs));
  return el("div", { class: "scroll" }, el("table", { class: "board sources" },
    el("thead", {}, el("tr", {}, el("th", {}, "strongest sources"), el("th", {}, "score"), el("th", { title: "By how much the log-probability of the statement falls without this source" }, "drop"))),
    el("tbody", {}, found.top.map(place => el("tr", {}, el("th", {}, names[place]), el("td", {}, signed(found.scores[place], full)), el("td", {}, dropText(place)))))));
}

const dropText = place => drops(place) === undefined ? "…" : drops(place).toFixed(1).replace("-", "−");

function documentOf(one, place, found, open) {
  const full = found ? Math.max(...found.scores.map(Math.abs)) : 1, used = !state.removed.includes(place);
  const tick = el("input", { type: "checkbox", checked: used, "data-passage": place, "aria-label": `Use ${one.name}`,
    onchange: event => { setRemoved(place, !event.target.checked); } });
  return el("div", { class: `document ${used ? "" : "unused"}` }, tick,
    el("details", { open, "data-document": place }, el("summary", {}, one.name),
      el("p", { class: "passage" }, one.parts.map(([text, source]) => source === null ? text : sourceOf(text, source, found, full)))));
}

function sourceOf(text, source, found, full) {
  if (!found) return el("span", { "data-source": source }, text);
  const [side, strength] = found.shades[source], score = signed(found.scores[source], full);
  const drop = drops(source);
  const lit = Number(strength) >= 0.05;
  return el("span", { class: `c ${lit ? side : ""} ${found.tested.includes(source) ? "tested" : ""}`, "--s": strength, "data-source": source,
    "data-tip": `${rows.get(method).names[source]}\nscore ${score}${drop === undefined ? "" : `, drop ${dropText(source)}`}` },
  text, lit ? el("small", {}, ` ${score}`) : null);
}

// Without some passages

function setRemoved(place, away) {
  state.removed = away ? [...state.removed, place].sort((a, b) => a - b) : state.removed.filter(one => one !== place);
  writeAddress();
  shown.without = null;
  leaving?.abort();
  clearTimeout(resting);
  drawResult();
  parts.result.querySelector(`[data-passage="${place}"]`).focus();
  if (state.removed.length) resting = setTimeout(leaveOut, 250);
}

async function leaveOut() {
  leaving?.abort();
  const mine = leaving = new AbortController();
  try {
    const found = await post("/api/sources/without", { ...JSON.parse(asked), removed: state.removed }, mine.signal);
    if (mine !== leaving || !shown) return;
    shown.without = found;
  } catch (error) {
    if (mine !== leaving || !(error instanceof Refused)) return;
    shown.without = { error: error.message };
  }
  const focus = document.activeElement?.dataset?.passage;
  drawResult();
  if (focus !== undefined) parts.result.querySelector(`[data-passage="${focus}"]`)?.focus();
}

function withoutOf() {
  if (!state.removed.length) return null;
  const names = state.removed.map(place => shown.documents[place].name).join(", ");
  const found = shown.without, at = state.statement, tokens = rows.get(method)?.statements[at].tokens ?? 1;
  if (found?.error) return el("p", { class: "error", role: "alert" }, found.error);
  return el("div", { id: "without", class: "without", "aria-live": "polite" }, found === null ? [el("span", { class: "spin" }), `Answering without ${names} …`] : [
    el("p", {}, `Without ${names} the model answers: `, el("q", {}, found.answer)),
    el("p", {}, `Probability of the chosen statement: ${chance(found.whole[at], tokens)} → `, el("b", {}, chance(found.logs[at], tokens)),
      `; its log-probability ${falls(found.whole[at] - found.logs[at])}.`)]);
}

const falls = drop => drop < 0 ? `rises by ${(-drop).toFixed(1)}` : `falls by ${drop.toFixed(1)}`;

// All methods

function drawMethods() {
  const wanted = [...new Set([...rows.keys(), ...known.source_methods])].sort((a, b) => known.source_methods.indexOf(a) - known.source_methods.indexOf(b));
  const focus = parts.compared.contains(document.activeElement) ? document.activeElement.dataset.method : undefined;
  const told = { top: "Of the chosen statement: the source with the highest score.", verdict: "Of the chosen statement: whether removing its top sources lowers the log-probability more than removing others.",
    one: "By how much the log-probability of the whole answer falls without the highest source.", three: "The same without the three highest.",
    lds: "How well the scores predict random removals that the method did not use: a rank correlation from −1 to 1.", passes: "What the method takes by itself: forward passes + backward passes." };
  fill(parts.compared, el("h2", {}, "Methods side by side"),
    el("p", { class: "hint" }, "Choose a method to see its sources above."),
    el("div", { class: "scroll" }, el("table", { class: "board" },
      el("thead", {}, el("tr", {}, el("th", {}, "method"), el("th", { class: "left", title: told.verdict }, "test"), el("th", { class: "left", title: told.top }, "top source"), el("th", { title: told.one }, "top 1 drop"),
        el("th", { title: told.three }, "top 3 drop"), el("th", { title: told.lds }, "lds"), el("th", { title: told.passes }, "passes"))),
      el("tbody", {}, wanted.map(methodRow)))),
    el("p", { class: "note" }, `Test and top source are of the chosen statement; drops and lds of the whole answer. A drop is how far the log-probability falls when sources are removed. lds says how well the scores predict random removals that the method did not use, from −1 to 1. ${FLOOR} is what any method must beat.`));
  if (focus) parts.compared.querySelector(`[data-method="${focus}"]`)?.focus();
}

function methodRow(name) {
  const row = rows.get(name), grade = grades.get(name), why = failed.get(name);
  const waiting = going ? [el("span", { class: "spin" }), "computing …"] : ["stopped"];
  if (!row) return el("tr", { "data-row": name }, el("th", {}, name), el("td", { colSpan: 6, class: "left note" }, why ?? waiting));
  const found = row.statements[state.statement], best = found.tested.length ? found.top[0] : null;
  const figures = grade ? [grade.top_1_drop.toFixed(1), grade.top_3_drop.toFixed(1), grade.lds === null ? "–" : grade.lds.toFixed(2),
    grade.backwards ? `${grade.forwards} + ${grade.backwards}` : String(grade.forwards)] : null;
  return el("tr", { "data-row": name, class: name === method ? "chosen" : "" },
    el("th", {}, el("button", { type: "button", class: "method", "data-method": name, "aria-pressed": String(name === method), title: row.options,
      onclick: () => { method = name; draw(); } }, name)),
    el("td", { class: "left" }, found.verdict ? badge(found.verdict) : "–"),
    el("td", { class: "left" }, best === null ? "–" : row.names[best]),
    figures ? figures.map(one => el("td", {}, one.replace("-", "−"))) : el("td", { colSpan: 4, class: "note" }, why ?? waiting));
}

// Keeping

const seen = () => ({ ...asking(), method: method === first ? state.source_method : method });

export const code = () => post("/api/sources/code", { ...seen(), removed: state.removed, methods: known.source_methods.filter(one => grades.has(one)) });

export const savePage = take => stream("/api/sources/page", seen(), undefined, found => { if (found.html) take(found.html); });
