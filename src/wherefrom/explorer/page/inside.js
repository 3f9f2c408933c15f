// Inside the model: scores layer by layer, all heads at a glance, one head's pattern, heads switched off, and the flow.

import { post, Refused, stream } from "./api.js";
import { $, el, fill, number, options, output, percent, points, tips } from "./dom.js";
import { question, state } from "./state.js";

const root = $("inside");
const decode = text => Uint8Array.from(atob(text), one => one.charCodeAt(0));
const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim().split(" ").map(Number);

function cells(rows, columns, names, tip, strength, side, picked) {
  return el("div", { class: "scroll", tabindex: "0" }, el("table", { class: "strip" },
    el("thead", {}, el("tr", {}, el("th", {}), columns.map((one, place) => el("th", { class: picked === place ? "now" : "" }, el("span", {}, one))))),
    el("tbody", {}, rows.map((row, layer) => el("tr", {}, el("th", {}, names[layer]), row.map((value, place) =>
      el("td", { class: `cell c ${strength(value) < 0.02 ? "" : side(value)}`, "--s": strength(value).toFixed(3), "data-tip": tip(layer, place, value) })))))));
}

export class Inside {
  constructor(panel, answer) {
    Object.assign(this, { panel, answer, found: null, flow: null, off: [], picked: null, token: null, asking: null });
    this.body = el("div", {});
    this.details = el("details", { id: "inside-details" }, el("summary", {}, el("h2", {}, "Inside the model")), this.body);
    root.hidden = false;
    fill(root, this.details);
    this.details.addEventListener("toggle", () => { if (this.details.open && !this.found) this.load(); });
    tips(this.body);
  }

  changed() {
    this.asking?.abort();
    Object.assign(this, { found: null, flow: null, off: [], picked: null, token: null });
    fill(this.body);
    if (this.details.open) this.load();
  }

  async load() {
    this.asking?.abort();
    const mine = this.asking = new AbortController();
    fill(this.body, el("p", { class: "note" }, el("span", { class: "spin" }), "Looking inside …"));
    try {
      await stream("/api/inside", question(), mine.signal, part => {
        if (part.heads) {
          this.found = { ...part.heads, patterns: part.heads.patterns.map(layer => layer.map(decode)) };
          this.token = part.heads.read.indexOf(Math.max(...part.heads.read));
          this.build();
        }
        if (part.flow) { this.flow = part.flow.layers ? part.flow.layers.map(decode) : part.flow; this.drawFlow(); }
      });
    } catch (error) {
      if (error instanceof Refused) fill(this.body, el("p", { class: "error" }, error.message));
    }
  }

  build() {
    this.strip = el("div", {});
    this.heads = el("div", { class: "heads", role: "group", "aria-label": "All heads; press one for its pattern" });
    this.head = el("div", { class: "head" });
    this.told = el("p", { class: "change", id: "heads-change", "aria-live": "polite" });
    this.flowing = el("div", {});
    this.layered = el("select", { id: "layered", "aria-label": "Method" });
    this.layered.addEventListener("change", () => this.drawStrip());
    fill(this.body,
      el("div", { class: "bar" }, el("h3", {}, "Layer by layer"), this.layered), this.strip,
      el("div", { class: "bar" }, el("h3", {}, "All heads"), el("span", { class: "hint" }, "The bar is how much of the decision goes through a head: attention × gradient. Press one to see its pattern and to switch it off.")),
      this.heads, this.told, this.head,
      el("div", { class: "bar" }, el("h3", {}, "Flow to a token"), el("span", { class: "hint" }, "Which tokens the content of a position comes from, after every layer. Press a token to choose it.")), this.flowing);
    this.drawStrip();
    this.drawHeads();
    this.drawFlow();
  }

  drawStrip() {
    const rows = [...(this.panel()?.rows.values() ?? [])].filter(row => row.layers);
    const chosen = rows.find(row => row.asked === this.layered.value) ?? rows[0];
    options(this.layered, rows.map(row => [row.asked, row.asked]), chosen?.asked ?? "");
    this.layered.hidden = !rows.length;
    if (!chosen) { fill(this.strip, el("p", { class: "note" }, "None of the methods above has scores by layer. attcat and cat do: add one.")); return; }
    const most = Math.max(...chosen.layers.flat().map(Math.abs)) || 1;
    fill(this.strip, cells(chosen.layers, this.answer().text.units, chosen.layers.map((_, layer) => `layer ${layer + 1}`),
      (layer, place, value) => `${this.answer().text.units[place]}, layer ${layer + 1}: ${number(value, most, chosen.signed)}`,
      value => Math.abs(value) / most * chosen.loudness, value => !chosen.signed ? "only" : value < 0 ? "against" : "for"));
  }

  pattern(layer, head, size) {
    const n = this.found.tokens.length, data = this.found.patterns[layer][head];
    const canvas = el("canvas", { width: n, height: n, class: "pattern", "aria-hidden": "true" });
    canvas.style.width = canvas.style.height = `${size}px`;
    const context = canvas.getContext("2d"), picture = context.createImageData(n, n), [red, green, blue] = ink("--for-ink");
    for (let place = 0; place < n * n; place++) picture.data.set([red, green, blue, data[place]], 4 * place);
    context.putImageData(picture, 0, 0);
    return canvas;
  }

  drawHeads() {
    const most = Math.max(...this.found.relevance.flat()) || 1;
    fill(this.heads, this.found.relevance.map((layer, number_) => el("div", { class: "layer" }, el("span", { class: "name" }, `layer ${number_ + 1}`),
      layer.map((share, head) => {
        const off = this.off.some(([a, b]) => a === number_ && b === head);
        const chosen = this.picked && this.picked[0] === number_ && this.picked[1] === head;
        const one = el("button", { type: "button", class: `tile ${off ? "off" : ""}`, "aria-pressed": String(Boolean(chosen)), "data-head": `${number_}.${head}`,
          "aria-label": `Layer ${number_ + 1}, head ${head + 1}: ${percent(share)} of the relevance${off ? ", switched off" : ""}`,
          "data-tip": `layer ${number_ + 1}, head ${head + 1}\n${percent(share)} of the relevance to the target`, "--r": share / most,
          onclick: () => { this.picked = [number_, head]; this.drawHeads(); this.drawHead(); this.heads.querySelector(`[data-head="${number_}.${head}"]`).focus(); } },
        this.pattern(number_, head, 44), el("i", {}));
        one.style.opacity = 0.35 + 0.65 * share / most;
        return one;
      }))));
  }

  drawHead() {
    if (!this.picked) { fill(this.head); return; }
    const [layer, head] = this.picked, n = this.found.tokens.length, data = this.found.patterns[layer][head];
    const off = this.off.some(([a, b]) => a === layer && b === head);
    const rows = this.found.tokens.map((_, from) => [...data.slice(n * from, n * from + n)].map(one => one / 255));
    fill(this.head, el("div", { class: "bar" }, el("h3", {}, `Layer ${layer + 1}, head ${head + 1}`),
      el("span", { class: "hint" }, `${percent(this.found.relevance[layer][head])} of the relevance. Rows look at columns.`),
      el("button", { type: "button", id: "switch-head", onclick: () => this.toggle(layer, head) }, off ? "Switch it on" : "Switch it off"),
      this.off.length ? el("button", { type: "button", class: "quiet", onclick: () => { this.off = []; this.ask(); } }, "All on") : null),
    cells(rows, this.found.tokens, this.found.tokens, (from, to, value) => `${this.found.tokens[from]} → ${this.found.tokens[to]}: ${percent(value)}`, value => value, () => "only"));
  }

  toggle(layer, head) {
    const without = this.off.filter(([a, b]) => a !== layer || b !== head);
    this.off = without.length < this.off.length ? without : [...this.off, [layer, head]];
    this.ask();
  }

  async ask() {
    this.drawHeads();
    this.drawHead();
    if (!this.off.length) { fill(this.told); return; }
    try {
      const found = await post("/api/heads", { ...question(), off: this.off });
      const difference = found.probability - found.whole;
      fill(this.told, `Without ${this.off.map(([layer, head]) => `head ${head + 1} of layer ${layer + 1}`).join(", ")}: ${output(found.whole)} → `,
        el("b", {}, output(found.probability)), " ", el("span", { class: difference < 0 ? "down" : "up" }, points(difference)),
        found.prediction === this.answer().prediction ? "" : `. It now predicts ${found.prediction}.`);
    } catch (error) {
      if (error instanceof Refused) this.told.textContent = error.message;
    }
  }

  drawFlow() {
    if (!this.flow || !this.flowing) return;
    if (this.flow.why) { fill(this.flowing, el("p", { class: "note" }, this.flow.why)); return; }
    const n = this.found.tokens.length;
    const rows = this.flow.map(layer => [...layer.slice(n * this.token, n * this.token + n)].map(one => one / 255));
    fill(this.flowing, el("div", { class: "chips flow-tokens", role: "group", "aria-label": "The token whose content is followed" }, this.found.tokens.map((one, place) =>
      el("button", { type: "button", class: "quiet token", "aria-pressed": String(place === this.token), onclick: () => { this.token = place; this.drawFlow(); this.flowing.querySelectorAll(".token")[place].focus(); } }, one))),
    el("p", { class: "note", id: "flow-told" }, this.sentence(rows[rows.length - 1])),
    cells(rows, this.found.tokens, rows.map((_, layer) => `layer ${layer + 1}`), (layer, place, value) => `${this.found.tokens[place]}: ${percent(value)} after layer ${layer + 1}`, value => Math.min(1, value * 1.5), () => "only", this.token));
  }

  sentence(row) {
    const order = row.map((_, place) => place).sort((a, b) => row[b] - row[a]).slice(0, 3);
    return `At the end “${this.found.tokens[this.token]}” contains most of ${order.map(place => `“${this.found.tokens[place]}” (${percent(row[place])})`).join(", ")}.`;
  }
}
