// The methods' rows for one model: highlights, tests, costs, and the slider that hides a method's strongest words.

import { Refused, stream } from "./api.js";
import { curve } from "./curve.js";
import { el, fill, listed, number, output, points, tips } from "./dom.js";
import { question, state } from "./state.js";
import { outline, roleOf } from "./words.js";

export const SIGNS = { supported: "✓ supported", weak: "~ weak", "not supported": "✗ not supported", "too short": "· too short" };
export const BADGES = { supported: "supported", weak: "weak", "not supported": "not", "too short": "short" };

export class Panel {
  constructor(model, name) {
    this.model = model;
    this.rows = new Map();    // by the method as it was asked for
    this.failed = new Map();
    this.text = null;
    this.title = el("h3", { hidden: true }, name);
    this.verdict = el("p", { class: "verdict", "aria-live": "polite" });
    this.best = el("p", { class: "best", "aria-live": "polite" });
    this.list = el("div", { class: "rows" });
    this.legend = el("p", { class: "legend" });
    this.root = el("div", { class: "panel", "data-model": model }, this.title, this.verdict, this.best, this.list, this.legend);
    this.elements = new Map();
    outline(this.list);
    tips(this.list);
  }

  begin(text) {
    this.text = text;
    this.rows.clear();
    this.failed.clear();
    this.elements.clear();
    this.list.replaceChildren();
    this.legend.replaceChildren();
    this.verdict.textContent = "";
    this.best.textContent = "";
    this.compared = null;  // the methods that the verdict is about
  }

  // Explain by the methods that are not there yet; gives back whether all came.
  async explain(signal, progress) {
    const wanted = state.methods.filter(one => !this.rows.has(one) && !this.failed.has(one));
    const methods = state.methods.join();
    this.drop();
    if (!wanted.length && this.compared === methods) {
      this.order();
      return;
    }
    this.verdict.textContent = "";  // of other methods
    this.best.textContent = "";
    for (const one of wanted) this.place(one, this.waiting(one));
    this.order();
    let left = wanted.length;
    await stream("/api/explain", { ...question(this.model), methods: state.methods, best: true }, signal, found => {
      if (found.waiting) progress(`${found.waiting} computations are before this one …`);
      if (found.row && !this.rows.has(found.row.asked)) {
        this.rows.set(found.row.asked, found.row);
        this.draw(found.row.asked);
        left -= 1;
        progress(left > 0 ? `${left} to come …` : "Asking which one is the most faithful …");
      }
      if (found.failed) {
        this.failed.set(found.failed, found.why);
        this.place(found.failed, el("div", { class: "row" },
          el("div", { class: "row-head" }, el("b", {}, found.failed)), el("p", { class: "warning" }, found.why)));
        left -= 1;
      }
      if (found.verdict) this.verdict.textContent = found.verdict.words;
      if (found.best) { this.best.textContent = found.best.words; this.compared = methods; }
    });
  }

  drop() {
    for (const one of [...this.elements.keys()]) {
      if (state.methods.includes(one)) continue;
      this.elements.get(one).remove();
      this.elements.delete(one);
      this.rows.delete(one);
      this.failed.delete(one);
    }
  }

  stopped() {
    for (const one of state.methods) {
      if (this.rows.has(one) || this.failed.has(one)) continue;
      this.place(one, el("div", { class: "row" }, el("div", { class: "row-head" }, el("b", {}, one),
        el("span", { class: "badge short" }, "stopped"))));
    }
  }

  waiting(asked) {
    return el("div", { class: "row" }, el("div", { class: "row-head" }, el("b", {}, asked),
      el("span", { class: "note" }, el("span", { class: "spin" }), "computing …")));
  }

  place(asked, element) {
    const before = this.elements.get(asked);
    element.dataset.method = asked;
    if (before) before.replaceWith(element);
    else this.list.append(element);
    this.elements.set(asked, element);
  }

  order() {
    for (const one of state.methods) if (this.elements.has(one)) this.list.append(this.elements.get(one));
  }

  redraw() {
    for (const one of this.rows.keys()) this.draw(one);
  }

  strength(row, score) {
    const common = state.scale === "common";
    const full = common ? Math.max(...[...this.rows.values()].map(one => one.full)) : row.full;
    const start = common ? 0 : row.start;
    if (full <= start) return 0;
    return Math.max(0, Math.min(1, (Math.abs(score) - start) / (full - start))) * row.loudness;
  }

  highlights(row, gone = new Set()) {
    return el("div", { class: "text" }, this.text.lines.map((runs, line) => el("p", {}, roleOf(this.text, line), runs.map(([written, place, unread]) => {
      if (place === null) return unread ? el("span", { class: "unread" }, written) : written;
      const score = row.scores[place], strength = this.strength(row, score);
      const side = row.signed ? (score < 0 ? "against" : "for") : "only";
      const shown = number(score, row.full, row.signed);
      const plain = strength < 0.02;  // then there is no colour, and no number
      const kind = `${gone.has(place) ? "gone" : plain ? "" : side} ${written.length > 24 ? "long" : ""}`;
      return el("ruby", { class: `c ${kind}`, "data-unit": place, "--s": strength.toFixed(3),
        "data-tip": `${written}  ${shown}` }, written, el("rt", {}, plain ? "" : shown));
    }))));
  }

  draw(asked) {
    const row = this.rows.get(asked);
    const cost = [`${row.forwards || "shared"} forward`, row.backwards ? `${row.backwards} backward` : null,
      row.check_rows ? `test ${row.check_rows}` : null, row.seconds].filter(Boolean).join(" · ");
    const about = [...row.findings, ...(row.unit ? [`Scores are ${row.unit}.`] : []), ...row.apart.map(([name, value]) => `${name}: ${number(value, row.full)}`), ...row.notes];
    const holder = el("div", {}, this.highlights(row));
    const element = el("div", { class: "row" },
      el("div", { class: "row-head" }, el("b", {}, asked),
        row.verdict ? el("span", { class: `badge ${BADGES[row.verdict]}` }, SIGNS[row.verdict]) : null,
        el("span", { class: "cost", title: "Rows through the model, without what other methods had computed already" }, cost)),
      row.warning ? el("p", { class: "warning" }, row.warning) : null,
      holder,
      this.topk(row, holder),
      about.length ? el("details", {}, el("summary", {}, "Its test and its notes"),
        el("ul", {}, about.map(one => el("li", {}, one)))) : null);
    this.place(asked, element);
    this.drawLegend(row);
  }

  drawLegend(row) {
    if (this.legend.childElementCount) return;
    fill(this.legend, el("span", {}, el("span", { class: "c for", "--s": 0.8 }, "+"), ` for ${row.target}`),
      el("span", {}, el("span", { class: "c against", "--s": 0.8 }, "−"), ` against it, underlined`),
      el("span", {}, el("span", { class: "c only", "--s": 0.8 }, "1"), " matters, no sign"),
      el("span", {}, "pale: the decision would hardly move"));
  }

  topk(row, holder) {
    const slider = el("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": `Hide the strongest by ${row.asked}` });
    const told = el("output", { "aria-live": "polite" }, "…");
    const chart = el("div", {});
    const body = el("div", { class: "topk" }, el("div", {}, slider, told), chart);
    let found = null, band = null, orders = 0;
    const show = () => {
      if (!found) return;
      const at = found.sizes[Number(slider.value)], value = found.values[Number(slider.value)];
      const gone = found.order.slice(0, at);
      fill(chart, curve(found, band, at));
      fill(holder, this.highlights(row, new Set(gone)));
      const beside = band ? ` Random orders: ${output(band.mean[Number(slider.value)])} on average (the middle half of ${orders}: ${output(band.low[Number(slider.value)])} to ${output(band.high[Number(slider.value)])}).` : "";
      told.textContent = at === 0 ? `Nothing hidden: ${output(value)}.`
        : `Without its top ${at} (${listed(gone.map(one => this.text.units[one]))}): ${output(value)}, ${points(value - found.values[0])}.${beside}`;
    };
    slider.addEventListener("input", show);
    const asking = new AbortController();
    const details = el("details", { class: "hide-top" }, el("summary", {}, "Hide its top words, one by one"), body);
    details.addEventListener("toggle", async () => {
      if (!details.open) { fill(holder, this.highlights(row)); return; }
      if (found) { show(); return; }
      try {
        await stream("/api/curve", { ...question(this.model), method: row.asked, fill: state.fill }, asking.signal, part => {
          if (part.curve) { found = part.curve; slider.max = found.sizes.length - 1; }
          if (part.band) { band = part.band; orders = part.orders; }
          show();
        });
      } catch (error) {
        if (error instanceof Refused) told.textContent = error.message;
      }
    });
    return details;
  }
}
