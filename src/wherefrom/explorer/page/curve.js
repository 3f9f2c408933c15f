// The probability while a method's words vanish, beside the band of random orders.

import { percent, svg } from "./dom.js";

const WIDE = 320, HIGH = 130, LEFT = 30, BOTTOM = 18;

export function curve(found, band, at) {
  const sizes = found.sizes, most = Math.max(1, sizes[sizes.length - 1]);
  const x = size => LEFT + (WIDE - LEFT - 4) * size / most;
  const y = chance => 4 + (HIGH - BOTTOM - 4) * (1 - chance);
  const line = values => values.map((value, place) => `${place ? "L" : "M"}${x(sizes[place]).toFixed(1)},${y(value).toFixed(1)}`).join("");
  const made = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "curve", role: "img" });
  const here = sizes.indexOf(at) < 0 ? 0 : sizes.indexOf(at);
  made.setAttribute("aria-label", `Probability by how many are hidden: ${percent(found.values[0])} at first, ${percent(found.values[here])} without ${at}`);
  for (const chance of [0, 0.5, 1]) {
    made.append(svg("line", { x1: LEFT, x2: WIDE, y1: y(chance), y2: y(chance), class: "axis" }));
    const name = svg("text", { x: LEFT - 4, y: y(chance) + 3, "text-anchor": "end" });
    name.textContent = `${100 * chance}%`;
    made.append(name);
  }
  const under = svg("text", { x: WIDE, y: HIGH - 4, "text-anchor": "end" });
  under.textContent = `${most} hidden`;
  made.append(under);
  if (band) {
    const back = [...band.low].map((value, place) => [x(sizes[place]), y(value)]).reverse();
    const area = `${line(band.high)}L${back.map(point => point.map(one => one.toFixed(1)).join(",")).join("L")}Z`;
    made.append(svg("path", { d: area, class: "band" }), svg("path", { d: line(band.mean), class: "mean" }));
  }
  made.append(svg("path", { d: line(found.values), class: "rest" }),
    svg("path", { d: line(found.values.slice(0, here + 1)), class: "own" }),
    svg("circle", { cx: x(sizes[here]), cy: y(found.values[here]), r: 3.5, class: "at" }));
  return made;
}
