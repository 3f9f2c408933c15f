// The continuation of a language model. A generated token that is clicked is explained where it was decided.

import { Refused, stream } from "./api.js";
import { $, el, fill, percent, tips } from "./dom.js";
import { question, state } from "./state.js";

const root = $("generation");
let going = null;
let made = null, go = null;

function name() { if (!going) go.textContent = state.messages ? "Answer the chat" : "Go on from the text"; }

export function startGeneration(facts, open, openAnswer) {
  root.hidden = facts().task !== "causal_lm";
  if (root.hidden) return;
  if (made) { name(); return; }
  const count = el("input", { id: "generate-count", type: "number", min: 1, max: 60, value: 20, "aria-label": "How many tokens" });
  go = el("button", { type: "button", id: "generate" });
  name();
  const text = el("p", { id: "generated", class: "words", role: "group", "aria-label": "Generated tokens; press one to explain it" });
  const told = el("p", { class: "note", role: "status", "aria-live": "polite" });
  made = el("div", {}, el("div", { class: "bar" }, el("h2", {}, "Generate"), el("span", { class: "hint" }, "Then click a token to see why it came."),
    el("span", { class: "grow" }), el("label", { class: "pick" }, el("span", { class: "name" }, "tokens"), count), go), text, told);
  tips(text);
  fill(root, made);
  go.addEventListener("click", async () => {
    if (going) { going.abort(); return; }
    const mine = going = new AbortController(), chat = state.messages !== null;
    go.textContent = "Stop";
    fill(text, el("span", { class: "name" }, chat ? state.begun : state.text));
    told.textContent = "";
    try {
      await stream("/api/generate", { ...question(), pair: null, target: null, versus: null, count: Number(count.value) || 20 }, mine.signal, ({ token, end, waiting }) => {
        if (waiting) told.textContent = `${waiting} computations are before this one …`;
        if (end) told.textContent = "The model ends here.";
        if (!token) return;
        const one = el("span", { class: "w", role: "button", tabindex: "0", "data-token": token.id,
          "data-tip": `${percent(token.probability)}${token.exact ? "" : "\nThe text before it is read as other tokens."}` }, token.text);
        const explain = () => {
          for (const other of text.querySelectorAll("[aria-pressed]")) other.removeAttribute("aria-pressed");
          one.setAttribute("aria-current", "true");
          if (chat) openAnswer(token.before, token.id);
          else open(token.before, null, token.id);
          told.textContent = `“${token.text.trim()}” had ${percent(token.probability)}. It is explained with the text before it.`;
        };
        one.addEventListener("click", explain);
        one.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); explain(); } });
        text.append(one);
      });
    } catch (error) {
      if (error instanceof Refused) told.textContent = error.message;
    } finally {
      going = null;
      name();
    }
  });
}
