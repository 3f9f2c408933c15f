const given = document.getElementById("flow").dataset, LAYERS = +given.layers, STEPS = +given.steps, MOST = 96;
const chips = [...document.querySelectorAll(".chip")], N = chips.length;
const names = chips.map(chip => chip.textContent), special = chips.map(chip => chip.classList.contains("mark"));
const bytes = Uint8Array.from(atob(given.shares), c => c.charCodeAt(0));
const C = Float32Array.from(new Uint16Array(bytes.buffer), share => share / STEPS); // [layer][query][key]
const at = id => document.getElementById(id), range = n => [...Array(n).keys()];
const percent = x => x >= .9995 && x < 1 ? ">99.9%" : x > 0 && x < .0005 ? "<0.1%" : (100 * x).toFixed(1) + "%";
let chosen = +given.start, pinned = false;

// One row carried down through the layers is all that a view of one token needs.
function step(row, layer) {
  const below = new Float64Array(N), base = layer * N * N;
  for (let i = 0; i < N; i++) if (row[i] > 0) for (let j = 0; j < N; j++) below[j] += row[i] * C[base + i * N + j];
  return below;
}
function unit(token) { const row = new Float64Array(N); row[token] = 1; return row; }
function since(token, layer) { let row = unit(token); for (let l = layer; l >= 0; l--) row = step(row, l); return row; }
const mode = () => document.querySelector("[name=mode]:checked").value, layer = () => +at("layer").value - 1;
const shown = (token, l) => mode() === "one" ? step(unit(token), l) : since(token, l);
function scale(row) { const plain = Math.max(0, ...range(N).filter(i => !special[i]).map(i => row[i])); return plain || Math.max(...row) || 1; }

function draw() {
  const l = layer(), row = shown(chosen, l), full = scale(row);
  at("number").textContent = l + 1;
  at("full").textContent = percent(full);
  chips.forEach((chip, i) => {
    chip.classList.toggle("chosen", i === chosen); chip.classList.toggle("pinned", pinned && i === chosen);
    chip.setAttribute("aria-pressed", i === chosen);
    chip.style.setProperty("--s", Math.min(1, row[i] / full).toFixed(3));
    delete chip.dataset.tip; chip.title = names[i] + "  " + percent(row[i]);
  });
  const order = range(N).sort((a, b) => row[b] - row[a]);
  const others = order.filter(i => i !== chosen).slice(0, 3).map(i => `${percent(row[i])} from “${names[i]}”`);
  const parts = [`${percent(row[chosen])} of the content of “${names[chosen]}” came from its own ${mode() === "one" ? "place" : "input"}`, ...others];
  at("sentence").textContent = `Behind layer ${l + 1}, ${parts.slice(0, -1).join(", ")}${parts.length > 1 ? " and " : ""}${parts.at(-1)}.`;
  bars(order.slice(0, 12), row); graph(l); heat(); matrix(l);
}
function element(tag, classes, text) { const e = document.createElement(tag); if (classes) e.className = classes; if (text !== undefined) e.textContent = text; return e; }
function bars(order, row) {
  const most = row[order[0]] || 1;
  at("bars").replaceChildren(...order.map(i => {
    const item = element("li"), name = element("bdi", special[i] ? "ends" : "", names[i]), track = element("span", "track"), bar = element("span", "t only");
    bar.style.setProperty("--w", (row[i] / most).toFixed(3)); track.append(bar); item.append(name, track, element("b", "", percent(row[i]))); name.title = names[i];
    return item;
  }));
}
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, given, text) { const e = document.createElementNS(SVG, tag); for (const key in given) e.setAttribute(key, given[key]); if (text !== undefined) e.textContent = text; return e; }
function graph(top) {
  const labels = 26 + 6 * Math.min(14, Math.max(...names.map(name => name.length))), wide = Math.max(20, Math.min(54, (at("graph").clientWidth - 70) / N)), high = Math.max(34, Math.min(64, 340 / LAYERS));
  const x = i => 56 + wide * (i + .5), y = l => 16 + high * (LAYERS - l), picture = svg("svg", {width: 62 + wide * N, height: y(0) + labels, role: "img"});
  const lines = svg("g", {class: "lines"}), dots = svg("g", {}), words = svg("g", {class: "words"});
  for (let l = 0; l <= LAYERS; l++) words.append(svg("text", {x: 46, y: y(l) + 4, "text-anchor": "end", class: l === top + 1 ? "now" : ""}, l ? `layer ${l}` : "input"));
  let row = unit(chosen);
  const held = [[top + 1, row]];
  for (let l = top; l >= (mode() === "one" ? top : 0); l--) {
    for (let i = 0; i < N; i++) if (row[i] > .004) for (let j = 0; j < N; j++) {
      const share = row[i] * C[(l * N + i) * N + j];
      if (share < .004) continue;
      const a = y(l + 1), b = y(l), line = svg("path", {d: `M${x(i)} ${a}C${x(i)} ${(a + b) / 2} ${x(j)} ${(a + b) / 2} ${x(j)} ${b}`,
        "stroke-width": (.7 + 14 * share ** .75).toFixed(2), "stroke-opacity": (.18 + .8 * Math.sqrt(share)).toFixed(3)});
      line.append(svg("title", {}, `${names[j]} → ${names[i]}  ${percent(share)} · layer ${l + 1}`)); lines.append(line);
    }
    row = step(row, l); held.push([l, row]);
  }
  const sizes = new Map(held);
  for (let l = 0; l <= LAYERS; l++) for (let i = 0; i < N; i++) {
    const share = sizes.has(l) ? sizes.get(l)[i] : 0, dot = svg("circle", {cx: x(i), cy: y(l), r: (1.4 + 7 * Math.sqrt(share)).toFixed(2), class: share > .004 ? "full" : ""});
    dot.append(svg("title", {}, `${names[i]}  ${percent(share)} · ${l ? "after layer " + l : "input"}`));
    dot.addEventListener("click", () => { if (l) at("layer").value = l; chosen = i; pinned = true; draw(); });
    dots.append(dot);
  }
  names.forEach((name, i) => {
    const word = svg("text", {transform: `translate(${x(i) + 4} ${y(0) + 14}) rotate(-60)`, "text-anchor": "end", class: i === chosen ? "now" : special[i] ? "ends" : ""}, name.length > 14 ? name.slice(0, 13) + "…" : name);
    word.addEventListener("pointerenter", () => choose(i)); words.append(word);
  });
  picture.append(lines, dots, words); at("graph").replaceChildren(picture);
}
function heat() {
  const head = element("tr"), body = element("tbody"); head.append(element("th"));
  names.forEach((name, i) => { const cell = element("th", i === chosen ? "now" : ""); cell.append(element("bdi", "", name)); head.append(cell); });
  const rows = range(LAYERS).map(l => shown(chosen, l)), full = Math.max(...rows.map(scale));
  for (const l of range(LAYERS)) {
    const line = element("tr"); line.append(element("th", l === layer() ? "now" : "", `layer ${l + 1}`));
    for (const i of range(N)) { const cell = element("td", "t only"); cell.style.setProperty("--s", Math.min(1, rows[l][i] / full).toFixed(3)); cell.title = `${names[i]}  ${percent(rows[l][i])} · layer ${l + 1}`; line.append(cell); }
    body.append(line);
  }
  const start = element("thead"); start.append(head); at("heat").replaceChildren(start, body);
}
function matrix(l) {
  at("whole").hidden = N > MOST;
  if (N > MOST) return;
  const style = getComputedStyle(document.body), hue = style.getPropertyValue("--only").trim().split(/\s+/).join(","), ink = `rgb(${style.getPropertyValue("--ink")})`;
  const side = Math.max(9, Math.min(24, 620 / N)), edge = 110, size = edge + side * N + 4, canvas = at("matrix"), ratio = devicePixelRatio || 1, pen = canvas.getContext("2d");
  canvas.width = canvas.height = size * ratio; canvas.style.width = canvas.style.height = size + "px"; pen.scale(ratio, ratio);
  const rows = range(N).map(i => shown(i, l)), full = Math.max(...rows.map(scale));
  pen.font = `${Math.min(12, side)}px system-ui,sans-serif`; pen.textBaseline = "middle";
  rows.forEach((row, i) => { for (let j = 0; j < N; j++) { pen.fillStyle = `rgba(${hue},${Math.min(1, row[j] / full)})`; pen.fillRect(edge + j * side, edge + i * side, side - 1, side - 1); } });
  names.forEach((name, i) => {
    const short = name.length > 14 ? name.slice(0, 13) + "…" : name;
    pen.fillStyle = ink; pen.globalAlpha = i === chosen ? 1 : .65; pen.textAlign = "right"; pen.fillText(short, edge - 6, edge + (i + .5) * side);
    pen.save(); pen.translate(edge + (i + .5) * side, edge - 6); pen.rotate(-Math.PI / 2); pen.textAlign = "left"; pen.fillText(short, 0, 0); pen.restore();
  });
  pen.globalAlpha = 1; pen.strokeStyle = ink; pen.strokeRect(edge - .5, edge + chosen * side - .5, side * N, side);
  canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect(), j = Math.floor((event.clientX - box.left - edge) / side), i = Math.floor((event.clientY - box.top - edge) / side);
    if (i < 0 || j < 0 || i >= N || j >= N) { hide(); return; }
    say(`${percent(rows[i][j])} of the content of “${names[i]}” came from “${names[j]}”`, event.clientX + 12, event.clientY - 34);
  };
  canvas.onclick = event => { const i = Math.floor((event.clientY - canvas.getBoundingClientRect().top - edge) / side); if (i >= 0 && i < N) { pinned = true; choose(i, true); } };
  canvas.onpointerleave = hide;
}
function choose(token, force) { if ((pinned && !force) || token === chosen && !force) return; chosen = token; draw(); }
chips.forEach((chip, i) => {
  chip.addEventListener("pointerenter", () => choose(i));
  chip.addEventListener("click", () => { pinned = !(pinned && chosen === i); choose(i, true); });
  chip.addEventListener("focus", () => { if (chip.matches(":focus-visible")) choose(i, true); });
  chip.addEventListener("keydown", event => {
    const to = event.key === "ArrowRight" ? i + 1 : event.key === "ArrowLeft" ? i - 1 : -1;
    if (to >= 0 && to < N) { chips[to].focus(); choose(to, true); event.preventDefault(); }
    if (event.key === "Enter" || event.key === " ") { pinned = !pinned; draw(); event.preventDefault(); }
  });
});
at("layer").addEventListener("input", draw);
document.querySelectorAll("[name=mode]").forEach(input => input.addEventListener("change", draw));
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);

const tip = at("tip");
function say(text, left, top) { tip.textContent = text; tip.style.left = Math.max(6, Math.min(left, innerWidth - tip.offsetWidth - 6)) + "px"; tip.style.top = Math.max(6, top) + "px"; tip.style.visibility = "visible"; }
function hide() { tip.style.visibility = "hidden"; }
document.addEventListener("pointerover", event => {
  const spot = event.target.closest("[title],[data-tip]");
  if (!spot) { if (event.target !== at("matrix")) hide(); return; }
  if (spot.title) { spot.dataset.tip = spot.title; spot.removeAttribute("title"); }
  const box = spot.getBoundingClientRect();
  say(spot.dataset.tip, box.left, box.top > 50 ? box.top - 34 : box.bottom + 6);
});
draw();
