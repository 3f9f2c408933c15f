// What is seen, in one place: the text, what is asked about it, what is hidden. It is also the page's address.

export const state = {
  text: "", pair: null, level: "word", target: null, versus: null, methods: [], hidden: [], replaced: {},
  fill: "delete", scale: "own", model: 0, both: false, pinned: false,
};

const KEYS = { t: "text", p: "pair", l: "level", x: "target", v: "versus", m: "methods", h: "hidden", r: "replaced",
  f: "fill", s: "scale", n: "model", b: "both", k: "pinned" };
const USUAL = { level: "word", fill: "delete", scale: "own", model: 0, both: false, pinned: false };

export function address() {
  const found = new URLSearchParams();
  for (const [key, name] of Object.entries(KEYS)) {
    const value = state[name];
    if (value === null || value === USUAL[name]) continue;
    if (name === "methods") { if (value.length) found.set(key, value.join(",")); }
    else if (name === "hidden") { if (value.length) found.set(key, value.join(".")); }
    else if (name === "replaced") { if (Object.keys(value).length) found.set(key, JSON.stringify(value)); }
    else if (name === "both" || name === "pinned") found.set(key, "1");
    else if (typeof value === "number" && name !== "model") found.set(key, `#${value}`);
    else found.set(key, String(value));
  }
  return `#${found}`;
}

// A label is written as it is; a token by its number is written "#17", as a model may have a label "17".
const target = value => value !== null && /^#\d+$/.test(value) ? Number(value.slice(1)) : value;
const places = value => (value ?? "").split(".").filter(part => /^\d+$/.test(part)).map(Number);

export function readAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  if (!given.has("t")) return false;
  state.text = given.get("t");
  state.pair = given.get("p");
  state.level = ["token", "word", "sentence"].includes(given.get("l")) ? given.get("l") : "word";
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
});
export const hiding = (model = state.model) => ({
  ...question(model), hidden: state.hidden, replaced: state.replaced, fill: state.fill,
});
