// The probability while a method's words vanish, beside the band of random orders.

import { ends, output, svg } from "./dom.js";

const WIDE = 320, HIGH = 130, LEFT = 30, BOTTOM = 18;

export function curve(found, band, at) {
  const sizes = found.sizes, most = Math.max(1, sizes[sizes.length - 1]);
  const x = size => LEFT + (WIDE - LEFT - 4) * size / most;
  const [low, high] = ends([...found.values, ...(band ? [...band.low, ...band.high] : [])]);
  const y = value => 4 + (HIGH - BOTTOM - 4) * (1 - (value - low) / (high - low || 1));
  const line = values => values.map((value, place) => `${place ? "L" : "M"}${x(sizes[place]).toFixed(1)},${y(value).toFixed(1)}`).join("");
  const made = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "curve", role: "img" });
  const here = sizes.indexOf(at) < 0 ? 0 : sizes.indexOf(at);
  made.setAttribute("aria-label", `What the model says by how many are hidden: ${output(found.values[0])} at first, ${output(found.values[here])} without ${at}`);
  for (const value of [low, (low + high) / 2, high]) {
    made.append(svg("line", { x1: LEFT, x2: WIDE, y1: y(value), y2: y(value), class: "axis" }));
    const name = svg("text", { x: LEFT - 4, y: y(value) + 3, "text-anchor": "end" });
    name.textContent = output(value).replace(".0%", "%");
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
