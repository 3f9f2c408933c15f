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
