// Small helpers for the page's elements. Data always goes in as text, never as markup.

export const $ = id => document.getElementById(id);

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) made.style.setProperty(name, value);
    else if (name in made && name !== "list" && name !== "role") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(child => child !== null && child !== undefined));
}

export function options(select, rows, chosen) {
  fill(select, rows.map(([value, text, title]) => el("option", { value, title }, text)));
  select.value = chosen ?? "";
}

export function either(fieldset, name, rows, chosen, changed) {
  const legend = fieldset.querySelector("legend");
  fill(fieldset, legend, rows.map(([value, text, title]) => el("label", { title },
    el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => changed(value) }),
    el("span", {}, text))));
}

// Numbers in words, as the other views write them.

export function percent(chance) {
  if (chance >= 0.9995 && chance < 1) return ">99.9%";
  if (chance > 0 && chance < 0.0005) return "<0.1%";
  return `${(100 * chance).toFixed(1)}%`;
}

// What a model answers: a probability, or the value of a regression model, whose differences are no points.
let values = false;
export const showValues = on => { values = on; };
export const output = answer => values ? number(answer, Math.abs(answer), false) : percent(answer);

export function points(difference) {
  if (values) return number(difference, Math.abs(difference));
  const size = Math.abs(100 * difference).toFixed(1);
  return `${size === "0.0" ? "±" : difference < 0 ? "−" : "+"}${size} points`;
}

export function number(score, scale, signed = true) {
  const fixed = scale === 0 || (scale >= 0.01 && scale < 10000);
  const text = fixed ? Math.abs(score).toFixed(scale >= 10 ? 1 : scale >= 0.5 ? 2 : 3) : Math.abs(score).toExponential(1);
  const nothing = !/[1-9]/.test(text.split("e")[0]);
  return nothing ? text : score < 0 ? `−${text}` : signed ? `+${text}` : text;
}

// Where an axis begins and ends: probabilities have their own ends, values those that were found.
export const ends = found => values ? [Math.min(...found), Math.max(...found)] : [0, 1];

export function listed(words, most = 4) {
  const shown = words.slice(0, most).map(word => `“${word}”`).join(", ");
  return words.length > most ? `${shown} and ${words.length - most} more` : shown;
}

// The tooltip beside the pointer, or beside what has the focus.

const tip = $("tip");

export function tips(root) {
  const show = event => {
    const at = event.target.closest?.("[data-tip]");
    if (!at || !root.contains(at)) { tip.hidden = true; return; }
    tip.textContent = at.dataset.tip;
    tip.hidden = false;
    const box = at.getBoundingClientRect();
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${above > 0 ? above : box.bottom + 6}px`;
  };
  root.addEventListener("pointerover", show);
  root.addEventListener("focusin", show);
  root.addEventListener("pointerleave", () => { tip.hidden = true; });
  root.addEventListener("focusout", () => { tip.hidden = true; });
}
