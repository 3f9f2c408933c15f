// The text of which words can be hidden and replaced, by pointer and by keys.

import { $, el, fill } from "./dom.js";
import { state } from "./state.js";

const root = $("words");
let words = [];    // the elements by their number
let last = null;   // where a span begins
let now = 0;       // the word that the keys are at
let changed = () => {};
let replace = () => {};

export function onWords(onChange, onReplace) { changed = onChange; replace = onReplace; }

// Who says a line, in a chat.
export const roleOf = (text, line) => text.roles?.[line] === undefined ? null : el("span", { class: "role" }, text.roles[line]);

export function drawWords(text) {
  words = [];
  now = Math.min(now, Math.max(0, text.units.length - 1));
  last = null;
  fill(root, text.lines.map((runs, line) => el("p", {}, roleOf(text, line), runs.map(([written, place, unread]) => {
    if (place === null) return unread ? el("span", { class: "unread", title: "The model did not read this." }, written) : written;
    const word = el("span", { class: "w", role: "button", "data-unit": place, "data-word": written,
      tabindex: place === now ? "0" : "-1", "aria-pressed": "false" }, written);
    words[place] = word;
    return word;
  }))));
  showWords();
}

export function showWords() {
  words.forEach((word, place) => {
    if (!word || word.querySelector("input")) return;
    const replaced = state.replaced[place];
    const written = replaced ?? word.dataset.word;
    word.setAttribute("aria-pressed", String(state.hidden.includes(place)));
    word.classList.toggle("new", replaced !== undefined);
    if (word.textContent !== written) word.textContent = written || "∅";
    word.setAttribute("aria-label", replaced === undefined ? word.dataset.word
      : `${replaced || "nothing"}, in place of ${word.dataset.word}`);
  });
}

export const wordCount = () => words.length;

function toggle(place, span) {
  const before = new Set(state.hidden);
  if (span && last !== null) {
    const [from, to] = last < place ? [last, place] : [place, last];
    for (let one = from; one <= to; one++) before.add(one);
  } else if (before.has(place)) before.delete(place);
  else before.add(place);
  last = place;
  changed([...before].sort((a, b) => a - b));
}

function moveTo(place) {
  const next = Math.max(0, Math.min(words.length - 1, place));
  words[now]?.setAttribute("tabindex", "-1");
  now = next;
  words[now]?.setAttribute("tabindex", "0");
  words[now]?.focus();
}

function edit(place) {
  const word = words[place];
  const before = word.textContent;
  let open = true;
  const close = keep => {
    if (!open) return;
    open = false;
    const written = input.value.trim();
    word.textContent = before;
    if (keep && written !== before) replace(place, written === word.dataset.word ? undefined : written);
    showWords();
    word.focus();
  };
  const input = el("input", {
    value: state.replaced[place] ?? word.dataset.word, maxLength: 200, "aria-label": `Replace ${word.dataset.word} by`,
    onkeydown: event => {
      event.stopPropagation();
      if (event.key === "Enter") close(true);
      if (event.key === "Escape") close(false);
    },
    onblur: () => close(true),
    onclick: event => event.stopPropagation(),
    ondblclick: event => event.stopPropagation(),
  });
  word.replaceChildren(input);
  input.focus();
  input.select();
}

const placeOf = event => {
  const word = event.target.closest(".w");
  return word && root.contains(word) ? Number(word.dataset.unit) : null;
};

root.addEventListener("click", event => {
  const place = placeOf(event);
  if (place === null || event.target.tagName === "INPUT") return;
  words[now]?.setAttribute("tabindex", "-1");
  now = place;
  words[now].setAttribute("tabindex", "0");
  toggle(place, event.shiftKey);
});
root.addEventListener("mousedown", event => { if (event.shiftKey) event.preventDefault(); });
root.addEventListener("dblclick", event => {
  const place = placeOf(event);
  if (place !== null && event.target.tagName !== "INPUT" && !state.messages) { event.preventDefault(); edit(place); }
});
root.addEventListener("keydown", event => {
  const place = placeOf(event);
  if (place === null) return;
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 5, ArrowUp: -5, Home: -1e6, End: 1e6 }[event.key];
  if (step !== undefined) moveTo(place + step);
  else if (event.key === "Enter" || event.key === " ") toggle(place, event.shiftKey);
  else if (event.key === "F2" && !state.messages) edit(place);
  else return;
  event.preventDefault();
});

// A word that the pointer is at is outlined everywhere.
export function outline(area) {
  const light = place => {
    for (const one of document.querySelectorAll(".lit")) one.classList.remove("lit");
    if (place !== undefined) for (const one of document.querySelectorAll(`[data-unit="${place}"]`)) one.classList.add("lit");
  };
  area.addEventListener("pointerover", event => light(event.target.closest?.("[data-unit]")?.dataset.unit));
  area.addEventListener("pointerleave", () => light(undefined));
  area.addEventListener("focusin", event => light(event.target.closest?.("[data-unit]")?.dataset.unit));
  area.addEventListener("focusout", () => light(undefined));
}
