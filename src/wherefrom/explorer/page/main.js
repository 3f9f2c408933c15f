// The explorer's page: what is typed, hidden and chosen goes to the server, and what it answers is shown.

import * as answers from "./answer.js";
import { get, onConnection, post, Refused, stream } from "./api.js";
import { $, either, el, fill, listed, number, options, output, percent, points, showValues } from "./dom.js";
import { startGeneration } from "./generate.js";
import { Inside } from "./inside.js";
import { Panel } from "./panel.js";
import { startRuns } from "./runs.js";
import { hiding, question, readAddress, state, writeAddress } from "./state.js";
import { drawWords, onWords, outline, showWords } from "./words.js";

const HISTORY = "wherefrom-history";
let known = null;          // what the server says of itself
let read = [];             // the answers to the whole text, by model
let measured = [];         // and without the hidden words
let panels = [];
let inside = null;
let undone = [];           // what was hidden and replaced before
let reading = null, hidingNow = null, explaining = null;   // so that a newer request ends an older one
let typing = 0, resting = 0;
let asked = false;         // whether the address that the page was opened with has been answered

const facts = (model = state.model) => known.models[model] ?? known.models[0];
// The model that can be beside the chosen one: a classifier and a language model answer different questions.
const peer = () => known.models.findIndex((one, place) => place !== state.model && one.ready && one.task === facts().task);
const shownModels = () => state.both && peer() >= 0 ? [state.model, peer()] : [state.model];
const hasChanges = () => state.hidden.length > 0 || Object.keys(state.replaced).length > 0;

// Drawing what does not depend on an answer

function drawModels() {
  const several = known.models.length > 1;
  fill($("models"), several ? el("label", { class: "pick" }, el("span", { class: "name" }, "Model"),
    el("select", { id: "model", onchange: event => { chooseModel(Number(event.target.value)); } },
      known.models.map((one, place) => el("option", { value: place, selected: place === state.model, disabled: !one.ready },
        one.ready ? one.name : `${one.name} (loading …)`))))
    : el("span", {}, "model ", el("b", {}, known.models[0].name)),
  several && peer() >= 0 ? el("label", { class: "pick" }, el("input", { type: "checkbox", id: "both", checked: state.both,
    onchange: event => { state.both = event.target.checked; drawControls(); textChanged(0); } }), "two side by side") : null);
}

// A model of another task reads other texts: it starts with an example of its own.
function chooseModel(model) {
  const before = facts().task;
  Object.assign(state, { model, target: null, versus: null, pinned: false });
  forget();
  if (!facts().chats) Object.assign(state, { messages: null, begun: "", level: state.level === "turn" ? "word" : state.level });
  if (facts().task !== before && facts().examples?.length) ({ text: state.text, pair: state.pair } = facts().examples[0]);
  drawControls();
  textChanged(0);
}

function drawControls() {
  const model = facts(), ready = model.ready;
  if (ready && !model.fills.includes(state.fill)) state.fill = "delete";
  drawModels();
  $("text").value = state.text;
  $("pair").value = state.pair ?? "";
  const asks = model.task === "question_answering";
  $("pair-field").hidden = state.pair === null && !asks;
  $("add-pair").hidden = asks || ["masked_lm", "causal_lm", "token_classification"].includes(model.task);
  $("add-pair").textContent = state.pair === null ? "+ second text" : "− second text";
  $("text-name").textContent = asks ? "Question" : model.task === "masked_lm" ? `Text with one ${model.mask}` : model.task === "causal_lm" ? "Text to go on from" : "Text";
  $("pair-name").textContent = asks ? "Context" : "Second text";
  options($("examples"), [["", "choose …"], ...(model.examples ?? []).map((one, place) => [String(place), short(one.text)])], "");
  drawHistory();
  drawMessages();
  const levels = [["word", "words"], ["token", "tokens"], ["sentence", "sentences"], ...(state.messages ? [["turn", "turns"]] : [])];
  either($("level"), "level", levels, state.level, value => {
    state.level = value; forget(); textChanged(0);
  });
  either($("scale"), "scale", [["own", "own scale", "Every method's largest score has its full colour"],
    ["common", "common scale", "The largest score of all methods has the full colour; their units differ"]], state.scale, value => {
    state.scale = value; writeAddress(); for (const one of panels) one.redraw();
  });
  options($("fill"), (model.fills ?? ["delete"]).map(one => [one, one === "delete" ? "deleting it" : `its ${one} token`]), state.fill);
  drawTargets();
  $("version").textContent = `Wherefrom ${known.version}.`;
  drawChips();
  startGeneration(facts, open, openAnswer);
  drawTabs();
  $("decision-name").textContent = ready ? (shownModels().length > 1 ? `${model.name} predicts` : "Model predicts") : "The model is loading …";
}

// The messages of a chat, a row each; and what the model has answered so far, where a token of its answer is explained.
function drawMessages() {
  const chat = state.messages;
  $("as-chat").hidden = !facts().chats;
  $("as-chat").textContent = chat ? "Plain text" : "Chat";
  $("text-field").hidden = chat !== null;
  $("messages").hidden = $("add-message").hidden = chat === null;
  for (const id of ["examples", "history"]) $(id).parentElement.hidden = chat !== null;
  document.querySelector(".try-head .hint").textContent = chat ? "Click a word to hide it, shift-click for several. Keys: arrows, Enter, Shift+Enter."
    : "Click a word to hide it, shift-click for several, double-click to replace it. Keys: arrows, Enter, Shift+Enter, F2.";
  const edited = () => { state.begun = ""; newText(); };
  fill($("messages"), (chat ?? []).map((message, place) => el("div", { class: "message" },
    el("select", { "aria-label": `Role of message ${place + 1}`, onchange: event => { message.role = event.target.value; edited(); drawMessages(); textChanged(); } },
      [...new Set(["system", "user", "assistant", "tool", message.role])].map(role => el("option", { value: role, selected: role === message.role }, role))),
    el("textarea", { rows: 1, spellcheck: false, value: message.content, "aria-label": `Message ${place + 1}`,
      oninput: event => { message.content = event.target.value; edited(); textChanged(); } }),
    el("button", { type: "button", class: "quiet", "aria-label": `Remove message ${place + 1}`, disabled: chat.length < 2,
      onclick: () => { chat.splice(place, 1); edited(); drawMessages(); textChanged(0); } }, "×"))),
  chat && state.begun ? el("div", { class: "message" }, el("span", { class: "role" }, "answer so far"), el("p", { id: "begun" }, state.begun),
    el("button", { type: "button", class: "quiet", "aria-label": "Remove the answer so far", onclick: () => { edited(); drawMessages(); textChanged(0); } }, "×")) : null);
}

function switchChat() {
  if (state.messages) Object.assign(state, { text: state.messages.at(-1).content || state.text, messages: null, level: state.level === "turn" ? "word" : state.level });
  else Object.assign(state, { messages: [{ role: "user", content: state.text }], pair: null });
  state.begun = "";
  newText();
  drawControls();
  textChanged(0);
}

// A language model also answers questions from passages, in a tab of its own.
function drawTabs() {
  const model = facts(), answering = model.task === "causal_lm";
  if (answering && model.ready) answers.startAnswers(model, known);
  $("tabs").hidden = !answering;
  fill($("tabs"), [["text", "Text"], ["answer", "Answer"]].map(([tab, name]) => el("button", { type: "button", role: "tab", id: `choose-${tab}`,
    "aria-controls": `${tab}-tab`, "aria-selected": String(state.tab === tab), onclick: () => chooseTab(tab),
    onkeydown: event => { if (["ArrowLeft", "ArrowRight"].includes(event.key)) { chooseTab(tab === "text" ? "answer" : "text"); $(`choose-${state.tab}`).focus(); } } }, name)));
  const here = answering && state.tab === "answer";
  for (const tab of ["text", "answer"]) {
    $(`${tab}-tab`).hidden = (tab === "answer") !== here;
    $(`${tab}-tab`).setAttribute("role", answering ? "tabpanel" : "group");
  }
  $("copy-command").hidden = here;
}

const onAnswer = () => state.tab === "answer" && facts().task === "causal_lm";

function chooseTab(tab) {
  if (state.tab === tab) return;
  state.tab = tab;
  drawTabs();
  writeAddress();
  if (tab === "text") textChanged(0);
  else explaining?.abort();
}

function drawTargets() {
  const model = facts(), names = model.task === "question_answering" ? ["span", "start", "end"] : model.labels ?? [];
  const tags = model.task === "token_classification", tokens = tags || model.task === "masked_lm" || model.task === "causal_lm";
  const likely = tags ? read[0]?.found ?? [] : tokens ? (read[0]?.probabilities ?? []).map(([label]) => label) : [];
  const rows = [...new Set([...names, ...likely, ...[state.target, state.versus].filter(one => one !== null).map(String)])];
  options($("target-pick"), [["", model.task === "question_answering" ? "the answer" : "what is predicted"], ...rows.map(one => [one, one])], state.target === null ? "" : String(state.target));
  options($("versus-pick"), [["", "all others"], ...rows.map(one => [one, one])], state.versus === null ? "" : String(state.versus));
  $("versus-pick").parentElement.hidden = model.task === "question_answering" || model.independent === true || rows.length < 2;
  $("versus-pick").disabled = state.target === null;
  $("versus-pick").title = state.target === null ? "Choose first what is explained" : "";
  $("token-field").hidden = !tokens;
  $("pin-field").hidden = state.target === null;
  $("pin").checked = state.pinned;
  $("token-field").querySelector(".name").textContent = tags ? "Entity" : "Token";
}

const short = text => text.length > 60 ? `${text.slice(0, 58)}…` : text;

function drawHistory() {
  options($("history"), [["", "choose …"], ...past().map((one, place) => [String(place), short(one.text)])], "");
}

function past() {
  try {
    const kept = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(one => typeof one?.text === "string") : [];
  } catch { return []; }
}

function remember() {
  if (state.messages) return;
  const now = { text: state.text, pair: state.pair };
  const others = past().filter(one => one.text !== now.text || one.pair !== now.pair);
  try { localStorage.setItem(HISTORY, JSON.stringify([now, ...others].slice(0, 30))); } catch { /* private window */ }
  drawHistory();
}

let openOptions = null;

function drawChips() {
  const rows = known.methods, by = Map.groupBy ? Map.groupBy(rows, one => one.family) : new Map([["methods", rows]]);
  const adding = el("select", { id: "add-method", "aria-label": "Add a method", onchange: event => {
    if (event.target.value) addMethod(event.target.value);
  } }, el("option", { value: "" }, "+ method …"), [...by].map(([family, methods]) => el("optgroup", { label: family },
    methods.map(one => el("option", { value: one.name, title: one.summary ?? "" }, one.slow ? `${one.name} (slow)` : one.name)))));
  fill($("chips"), state.methods.map(asked => {
    const name = asked.split(":")[0], row = rows.find(one => one.name === name);
    const has = row?.options && Object.keys(row.options).length;
    return el("span", { class: "chip", title: row?.summary ?? "" }, asked,
      has ? el("button", { type: "button", "aria-label": `Options of ${asked}`, "aria-expanded": String(openOptions === asked),
        onclick: () => { openOptions = openOptions === asked ? null : asked; drawChips(); } }, "⚙") : null,
      el("button", { type: "button", "aria-label": `Remove ${asked}`, onclick: () => { setMethods(state.methods.filter(one => one !== asked)); } }, "×"));
  }), adding, openOptions && state.methods.includes(openOptions) ? optionsOf(openOptions) : null);
}

function optionsOf(asked) {
  const [name, ...given] = asked.split(":"), row = known.methods.find(one => one.name === name);
  const values = Object.fromEntries(given.map(one => one.split("=")));
  const apply = () => {
    const chosen = [...form.querySelectorAll("[data-option]")].filter(one => one.value.trim() && one.value.trim() !== one.dataset.usual)
      .map(one => `${one.dataset.option}=${one.value.trim()}`);
    const now = [name, ...chosen].join(":");
    openOptions = null;
    setMethods(state.methods.map(one => one === asked ? now : one).filter((one, place, all) => all.indexOf(one) === place));
  };
  const form = el("div", { class: "options", role: "group", "aria-label": `Options of ${name}` },
    Object.entries(row.options).map(([option, { default: usual, choices }]) => el("label", {}, option,
      choices.length ? el("select", { "data-option": option, "data-usual": usual }, [...new Set([usual, ...choices])].map(one =>
        el("option", { value: one, selected: one === (values[option] ?? usual) }, one)))
        : el("input", { "data-option": option, "data-usual": usual, value: values[option] ?? usual, onkeydown: event => { if (event.key === "Enter") apply(); } }))),
    el("button", { type: "button", onclick: apply }, "Use"));
  return form;
}

function addMethod(name) {
  if (state.methods.length >= known.limits.methods) { say(`At most ${known.limits.methods} methods at once: remove one first.`); drawChips(); return; }
  setMethods([...new Set([...state.methods, name])]);
}

function setMethods(methods) {
  state.methods = methods;
  drawChips();
  writeAddress();
  explain();
}

// Asking

function say(text, spinning = false) { fill($("progress"), spinning ? el("span", { class: "spin" }) : null, text); }

function mistake(error) {
  if (error.name === "AbortError") return;
  if (error instanceof Refused) {
    $("text-error").textContent = error.message;
    $("text-error").hidden = false;
  }
}

function forget() {
  state.hidden = [];
  state.replaced = {};
  undone = [];
}

// Another text: what was hidden and chosen was about the last one. A target stays if it is pinned.
function newText() {
  forget();
  if (!state.pinned) state.target = state.versus = null;
  drawTargets();
}

function textChanged(delay = 250) {
  clearTimeout(typing);
  explaining?.abort();
  stale(true);
  typing = setTimeout(readText, delay);
}

async function readText() {
  reading?.abort();
  const mine = reading = new AbortController();
  $("text-error").hidden = true;
  writeAddress();
  if (!known.models.some(one => one.ready)) return;
  try {
    const found = await Promise.all(shownModels().map(model => post("/api/read", question(model), mine.signal)));
    if (mine !== reading) return;
    read = found;
    measured = found;
  } catch (error) {
    if (mine !== reading) return;
    read = [];
    for (const one of panels) one.begin({ lines: [], units: [] });
    fill($("words"));
    fill($("classes"));
    for (const id of ["prediction", "target"]) $(id).textContent = "…";
    for (const id of ["prediction-chance", "chance"]) $(id).textContent = "";
    $("change").textContent = "";
    say("");
    mistake(error);
    return;
  }
  const units = read[0].text.units.length;
  state.hidden = state.hidden.filter(place => place < units);
  state.replaced = Object.fromEntries(Object.entries(state.replaced).filter(([place]) => Number(place) < units));
  $("text-note").hidden = !read[0].text.cut;
  $("text-note").textContent = read[0].text.cut ? `The model reads ${facts().limit} tokens: the last ${read[0].text.cut} were cut and are not explained.` : "";
  drawTargets();
  drawWords(read[0].text);
  drawPanels();
  showAnswer();
  if (hasChanges()) hide();
  clearTimeout(resting);
  resting = setTimeout(() => { remember(); explain(); }, 350);
  inside?.changed();
}

function drawPanels() {
  const models = shownModels();
  if (panels.length !== models.length || panels.some((one, place) => one.model !== models[place])) {
    panels = models.map(model => new Panel(model, known.models[model].name));
    fill($("panels"), panels.map(one => one.root));
    $("panels").classList.toggle("two", models.length > 1);
  }
  panels.forEach((one, place) => { one.title.hidden = models.length < 2; one.begin(read[place].text); });
}

async function explain() {
  if (!panels.length || !read.length || onAnswer()) return;
  explaining?.abort();
  if (!state.methods.length) { for (const one of panels) one.drop(); say("Choose a method."); return; }
  const mine = explaining = new AbortController();
  $("stop").hidden = false;
  say("Explaining …", true);
  try {
    await Promise.all(panels.map(one => one.explain(mine.signal, text => say(text, true))));
    if (mine === explaining) say("");
  } catch (error) {
    if (mine !== explaining) return;
    if (error.name !== "AbortError") say(error instanceof Refused ? error.message : "");
  } finally {
    if (mine === explaining) { $("stop").hidden = true; drawClaims(); }
  }
}

function remembered() { return { hidden: state.hidden, replaced: state.replaced }; }

function hideThese(hidden, replaced = state.replaced, { undoable = true } = {}) {
  if (undoable) undone.push(remembered());
  state.hidden = hidden;
  state.replaced = replaced;
  showWords();
  writeAddress();
  hide();
}

async function hide() {
  hidingNow?.abort();
  const mine = hidingNow = new AbortController();
  $("undo").disabled = !undone.length;
  $("reset").disabled = !hasChanges();
  stale(true);
  try {
    const found = await Promise.all(shownModels().map(model => post("/api/hide", hiding(model), mine.signal)));
    if (mine !== hidingNow) return;
    measured = found;
    $("text-error").hidden = true;
    showAnswer();
  } catch (error) {
    if (mine === hidingNow) mistake(error);
  }
}

// Showing answers

function bars(answer, whole, model) {
  const before = Object.fromEntries(whole.probabilities);
  return answer.probabilities.map(([label, chance]) => el("button", {
    class: "class", type: "button", "aria-pressed": String(label === answer.target || answer.target.startsWith(`${label} rather`)),
    title: `Explain ${label}`, "--p": chance, "--w": answer === whole || before[label] === undefined ? -1 : before[label],
    onclick: () => { if (model === state.model) setTarget(label); },
  }, el("span", {}, label), el("i", {}), el("em", {}, percent(chance))));
}

function stale(on) { for (const id of ["prediction-chance", "chance"]) $(id).classList.toggle("stale", on); }

function showAnswer() {
  showValues(facts().values === true);
  if (!read.length || !measured.length) return;
  const answer = measured[0], whole = read[0];
  $("prediction").textContent = answer.prediction;
  $("prediction-chance").textContent = output(answer.predicted);
  $("target").textContent = answer.target;
  $("chance").textContent = output(answer.probability);
  stale(false);
  fill($("classes"), bars(answer, whole, state.model));
  fill($("change"), changeOf(answer, whole));
  $("undo").disabled = !undone.length;
  $("reset").disabled = !hasChanges();
  $("second").hidden = read.length < 2;
  if (read.length > 1 && measured.length > 1) {
    const other = shownModels()[1];
    fill($("second"), el("div", {}, el("p", { class: "eyebrow" }, `${known.models[other].name} predicts`),
      el("p", { class: "big" }, measured[1].prediction, " ", el("span", { class: "chance" }, output(measured[1].predicted))),
      el("p", { class: "explaining" }, "Explaining ", el("b", {}, measured[1].target), " ", el("span", { class: "chance" }, output(measured[1].probability))),
      el("p", { class: "change" }, changeOf(measured[1], read[1]))),
    el("div", { class: "classes" }, bars(measured[1], read[1], other)));
  }
  drawClaims();
}

function changeOf(answer, whole) {
  const without = state.hidden.map(place => read[0].text.units[place]), replaced = Object.entries(state.replaced);
  if (!without.length && !replaced.length) return "";
  const difference = answer.probability - whole.probability;
  const what = [without.length ? `without ${listed(without)}` : "",
    replaced.length ? `with ${listed(replaced.map(([, word]) => word || "nothing"))} for ${listed(replaced.map(([place]) => read[0].text.units[place]))}` : ""].filter(Boolean).join(", ");
  return [`${whole.target}: ${output(whole.probability)} → `, el("b", {}, output(answer.probability)), " ",
    el("span", { class: difference < 0 ? "down" : "up" }, points(difference)), ` ${what}`,
    answer.prediction !== whole.prediction ? `. It predicted ${whole.prediction} before.` : ""];
}

// The methods' attributions of the words that are hidden, beside what was measured.
function drawClaims() {
  const places = [...new Set([...state.hidden, ...Object.keys(state.replaced).map(Number)])];
  const rows = panels[0] ? [...panels[0].rows.values()] : [];
  $("claims").hidden = !places.length || !rows.length || !measured.length;
  if ($("claims").hidden) return;
  const difference = measured[0].probability - read[0].probability;
  const names = listed(places.map(place => read[0].text.units[place]));
  fill($("claims"), el("p", {}, `Attribution of ${names}; measured: `, el("span", { class: "measured" }, points(difference))),
    el("div", { class: "scroll" }, el("table", {}, rows.map(row => {
      const sum = places.reduce((total, place) => total + row.scores[place], 0);
      const share = Math.abs(sum) / (row.scores.reduce((total, one) => total + Math.abs(one), 0) || 1);
      const usual = places.length / row.scores.length;  // the share of as many average words
      return el("tr", { "data-claim": row.asked }, el("th", {}, row.asked), el("td", {}, `score ${number(sum, row.full, row.signed)}`),
        el("td", {}, `${(100 * share).toFixed(0)}% of its total`), el("td", {}, agreement(sum, difference, row, share > usual)));
    }))), el("p", { class: "note" }, "✓: the sign agrees with what was measured, which chance achieves half of the time. Only for shares above that of average words."));
}

// Whether a sign agrees with what was measured. Small scores have their sign by chance, and those of `random` always.
function agreement(sum, difference, row, large) {
  if (!row.signed || Math.abs(difference) < 0.01 || sum === 0) return "";
  if (row.floor) return "chance";
  if (!large) return "too small to tell";
  return (sum > 0) === (difference < 0) ? "✓ same sign" : "✗ opposite sign";
}

function setTarget(target, versus = state.versus) {
  state.target = target;
  if (target === null) state.pinned = false;
  state.versus = target === null || versus === target ? null : versus;
  drawTargets();
  textChanged(0);
}

// Keeping and sharing

async function copied(text, what) {
  $("code").textContent = text;
  $("code").hidden = what === "The address";
  try {
    await navigator.clipboard.writeText(text);
    $("shared").textContent = `${what} is in the clipboard.`;
  } catch {
    $("code").hidden = false;
    $("shared").textContent = `${what} is below: the browser did not let it be copied.`;
  }
}

async function code(kind) {
  try {
    const found = onAnswer() ? await answers.code() : await post("/api/code", { ...hiding(), methods: state.methods });
    await copied(found[kind], kind === "python" ? "The Python" : "The command");
  } catch (error) {
    if (error instanceof Refused) $("shared").textContent = error.message;
  }
}

async function savePage() {
  $("shared").textContent = "Making the page …";
  const take = html => {
    const address = URL.createObjectURL(new Blob([html], { type: "text/html" }));
    el("a", { href: address, download: "wherefrom.html" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    $("shared").textContent = "Saved: wherefrom.html needs nothing else.";
  };
  try {
    if (onAnswer()) await answers.savePage(take);
    else await stream("/api/page", { ...question(), methods: state.methods }, undefined, found => { if (found.html) take(found.html); });
  } catch (error) {
    if (error instanceof Refused) $("shared").textContent = error.message;
  }
}

// Starting

// A token of the model's answer to a chat, explained with the answer before it.
function openAnswer(begun, target) {
  newText();
  Object.assign(state, { begun, target, versus: null });
  drawControls();
  textChanged(0);
  writeAddress({ replace: false });
}

export function open(text, pair = null, target = null) {
  Object.assign(state, { text, pair, messages: null, begun: "", level: state.level === "turn" ? "word" : state.level });
  newText();
  if (target !== null) Object.assign(state, { target, versus: null });
  drawControls();
  textChanged(0);
  writeAddress({ replace: false });
}

function listen() {
  $("text").addEventListener("input", event => { state.text = event.target.value; newText(); textChanged(); });
  $("pair").addEventListener("input", event => { state.pair = event.target.value; newText(); textChanged(); });
  $("pin").addEventListener("change", event => { state.pinned = event.target.checked; writeAddress(); });
  $("add-pair").addEventListener("click", () => {
    state.pair = state.pair === null ? "" : null;
    newText();
    drawControls();
    if (state.pair === null) textChanged(0);
    else $("pair").focus();
  });
  $("as-chat").addEventListener("click", switchChat);
  $("add-message").addEventListener("click", () => {
    state.messages.push({ role: state.messages.at(-1).role === "user" ? "assistant" : "user", content: "" });
    state.begun = "";
    newText();
    drawMessages();
    $("messages").querySelector(`[aria-label="Message ${state.messages.length}"]`).focus();
  });
  $("examples").addEventListener("change", event => {
    const one = facts().examples[Number(event.target.value)];
    if (event.target.value !== "") open(one.text, one.pair);
  });
  $("history").addEventListener("change", event => {
    const one = past()[Number(event.target.value)];
    if (event.target.value !== "") open(one.text, one.pair);
  });
  $("target-pick").addEventListener("change", event => setTarget(event.target.value || null));
  $("versus-pick").addEventListener("change", event => setTarget(state.target, event.target.value || null));
  $("token").addEventListener("change", event => setTarget(event.target.value.trim() || null));
  $("fill").addEventListener("change", event => { state.fill = event.target.value; writeAddress(); hide(); });
  $("undo").addEventListener("click", () => {
    const before = undone.pop();
    if (before) hideThese(before.hidden, before.replaced, { undoable: false });
  });
  $("reset").addEventListener("click", () => hideThese([], {}));
  $("stop").addEventListener("click", () => { explaining?.abort(); for (const one of panels) one.stopped(); say("Stopped."); $("stop").hidden = true; });
  $("copy-address").addEventListener("click", () => copied(location.href, "The address"));
  $("copy-python").addEventListener("click", () => code("python"));
  $("copy-command").addEventListener("click", () => code("command"));
  $("save-page").addEventListener("click", savePage);
  onWords(hidden => hideThese(hidden), (place, word) => {
    const replaced = { ...state.replaced };
    if (word === undefined) delete replaced[place];
    else replaced[place] = word;
    hideThese(state.hidden, replaced);
  });
  outline($("words"));
  addEventListener("hashchange", () => { if (readAddress(location.hash)) { if (!state.methods.length) state.methods = known.first_methods; undone = []; drawControls(); textChanged(0); if (onAnswer()) answers.ask(); } });
  addEventListener("keydown", event => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { event.preventDefault(); $("undo").click(); }
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { clearTimeout(typing); readText(); }
  });
  onConnection(there => {
    $("banner").hidden = there;
    $("banner").textContent = there ? "" : "The server does not answer. Start it again with `wherefrom serve`: this page reconnects by itself.";
    if (there) begin();
  });
}

// Ask what the server has until the chosen model is loaded, then read the text. Other models and runs may come later.
async function begin() {
  for (;;) {
    try {
      known = await get("/api/state");
    } catch (error) {
      if (error instanceof Refused) { $("banner").hidden = false; $("banner").textContent = error.message; }
      return;
    }
    if (state.model >= known.models.length) state.model = 0;
    if (!state.methods.length) state.methods = known.first_methods;
    drawControls();
    if (facts().ready) break;
    await new Promise(resolve => setTimeout(resolve, 250));
  }
  if (!state.text) {
    const first = facts().examples[0];
    state.text = first.text;
    state.pair = first.pair;
    drawControls();
  }
  startRuns(known, open);
  inside ??= new Inside(() => panels[0], () => read[0]);
  document.body.dataset.ready = "true";
  textChanged(0);
  if (onAnswer() && !asked) answers.ask();
  asked = true;
  readRest();
}

// Other models, the runs and the options of the methods come a little later than the chosen model.
async function readRest() {
  while (!known.complete || !known.ready) {
    await new Promise(resolve => setTimeout(resolve, 500));
    try { known = await get("/api/state"); } catch { return; }
    drawModels();
    startRuns(known, open);
  }
  drawModels();
  drawChips();
}

readAddress(location.hash);
$("text").value = state.text;
listen();
begin();
