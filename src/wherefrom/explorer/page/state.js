// What is seen, in one place: the text, what is asked about it, what is hidden. It is also the page's address.

export const state = {
  text: "", pair: null, level: "word", target: null, versus: null, methods: [], hidden: [], replaced: {},
  fill: "delete", scale: "own", model: 0, both: false, pinned: false, messages: null, begun: "",
  tab: "text", question: "", passages: [], answer: "", by: "sentence", source_method: "auto", removed: [], statement: 0,
};

const KEYS = { t: "text", p: "pair", l: "level", x: "target", v: "versus", m: "methods", h: "hidden", r: "replaced",
  f: "fill", s: "scale", n: "model", b: "both", k: "pinned", j: "messages", y: "begun", w: "tab", q: "question", c: "passages", a: "answer", d: "by",
  g: "source_method", o: "removed", i: "statement" };
const USUAL = { level: "word", fill: "delete", scale: "own", model: 0, both: false, pinned: false, tab: "text",
  begun: "", question: "", answer: "", by: "sentence", source_method: "auto", statement: 0 };
const OF_ANSWER = new Set(["question", "passages", "answer", "by", "source_method", "removed", "statement"]);

export function address() {
  const found = new URLSearchParams();
  for (const [key, name] of Object.entries(KEYS)) {
    const value = state[name];
    if (value === null || value === USUAL[name] || (OF_ANSWER.has(name) && state.tab !== "answer")) continue;
    if (name === "methods") { if (value.length) found.set(key, value.join(",")); }
    else if (name === "messages") found.set(key, JSON.stringify(value.map(one => [one.role, one.content])));
    else if (name === "passages") found.set(key, JSON.stringify(value.map(one => [one.name, one.text])));
    else if (name === "hidden" || name === "removed") { if (value.length) found.set(key, value.join(".")); }
    else if (name === "replaced") { if (Object.keys(value).length) found.set(key, JSON.stringify(value)); }
    else if (name === "both" || name === "pinned") found.set(key, "1");
    else if (typeof value === "number" && (name === "target" || name === "versus")) found.set(key, `#${value}`);
    else found.set(key, String(value));
  }
  return `#${found}`;
}

// A label is written as it is; a token by its number is written "#17", as a model may have a label "17".
const target = value => value !== null && /^#\d+$/.test(value) ? Number(value.slice(1)) : value;
const places = value => (value ?? "").split(".").filter(part => /^\d+$/.test(part)).map(Number);

// Pairs of a name, or a role, and a text.
function rows(value) {
  try {
    return JSON.parse(value ?? "[]").filter(one => typeof one?.[1] === "string").slice(0, 100);
  } catch { return []; }  // an address that somebody cut
}

export function readAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  if (!given.has("t") && !given.has("q")) return false;
  state.text = given.get("t") ?? "";
  state.pair = given.get("p");
  state.messages = given.has("j") ? rows(given.get("j")).map(([role, content]) => ({ role: String(role ?? "user"), content })) : null;
  if (!state.messages?.length) state.messages = null;
  state.begun = state.messages ? given.get("y") ?? "" : "";
  state.level = ["token", "word", "sentence", ...(state.messages ? ["turn"] : [])].includes(given.get("l")) ? given.get("l") : "word";
  state.target = target(given.get("x"));
  state.versus = target(given.get("v"));
  state.methods = (given.get("m") ?? "").split(",").filter(Boolean).slice(0, 12);
  state.hidden = places(given.get("h"));
  state.replaced = {};
  try {
    for (const [place, word] of Object.entries(JSON.parse(given.get("r") ?? "{}"))) {
      if (/^\d+$/.test(place) && typeof word === "string") state.replaced[place] = word;
    }
  } catch { /* an address that somebody cut: nothing is replaced */ }
  state.fill = given.get("f") ?? "delete";
  state.scale = given.get("s") === "common" ? "common" : "own";
  state.model = /^\d+$/.test(given.get("n") ?? "") ? Number(given.get("n")) : 0;
  state.both = given.get("b") === "1";
  state.pinned = given.get("k") === "1" && state.target !== null;
  state.tab = given.get("w") === "answer" ? "answer" : "text";
  if (given.has("q")) {
    state.question = given.get("q");
    state.passages = rows(given.get("c")).map(([name, text]) => ({ name: typeof name === "string" && name ? name : null, text }));
    state.answer = given.get("a") ?? "";
    state.by = ["paragraph", "document"].includes(given.get("d")) ? given.get("d") : "sentence";
    state.source_method = given.get("g") ?? "auto";
    state.removed = places(given.get("o"));
    state.statement = /^\d+$/.test(given.get("i") ?? "") ? Number(given.get("i")) : 0;
  }
  return true;
}

let written = "";
export function writeAddress({ replace = true } = {}) {
  const now = address();
  if (now === written) return;
  written = now;
  history[replace ? "replaceState" : "pushState"](null, "", location.pathname + location.search + now);
}

// What every request about the text carries.
export const question = (model = state.model) => ({
  model, text: state.text, pair: state.pair, level: state.level, target: state.target, versus: state.versus,
  messages: state.messages, begun: state.begun,
});
// What every request about an answer carries.
export const asking = () => ({
  model: state.model, question: state.question, passages: state.passages.map(({ name, text }) => ({ name, text })),
  answer: state.answer.trim() ? state.answer : null, by: state.by, method: state.source_method,
});
export const hiding = (model = state.model) => ({
  ...question(model), hidden: state.hidden, replaced: state.replaced, fill: state.fill,
});
