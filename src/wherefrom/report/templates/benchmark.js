document.querySelectorAll(".examples").forEach(section => {
  const filters = section.querySelector(".filters"), all = [...section.querySelectorAll(".disputed")];
  const field = name => filters.querySelector(`[name=${name}]`);
  let at = 0;
  const show = () => {
    const fits = all.filter(one => ["wrong", "disagree"].every(name => !field(name)?.checked || name in one.dataset)
      && (!field("label")?.value || one.dataset.label === field("label").value));
    at = Math.max(0, Math.min(at, fits.length - 1));
    all.forEach(one => { one.hidden = one !== fits[at]; });
    section.querySelector(".place").textContent = fits.length ? `${at + 1} of ${fits.length}` : "no such example";
    field("back").disabled = at === 0; field("next").disabled = at >= fits.length - 1;
  };
  filters.addEventListener("change", () => { at = 0; show(); });
  field("back").addEventListener("click", () => { at -= 1; show(); });
  field("next").addEventListener("click", () => { at += 1; show(); });
  filters.hidden = false;
  show();
});
document.querySelectorAll("table.sortable").forEach(table => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = row => { const v = row.cells[column].dataset.v; return v === undefined ? null : column && v !== "" && !isNaN(v) ? +v : v; };
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return (down ? -1 : 1) * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
    body.append(...rows);
  }));
});
