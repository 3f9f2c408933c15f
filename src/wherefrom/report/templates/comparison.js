// Click a heading, or press Enter on it, to sort: the best first, then the other way round. What is not defined stays last.
const head = document.querySelector(".grades thead tr"), body = document.querySelector(".grades tbody");
head?.addEventListener("click", event => {
  const button = event.target.closest("button"), cell = button?.closest("th");
  if (!cell) return;
  const place = [...head.cells].indexOf(cell), up = cell.ariaSort ? cell.ariaSort === "descending" : button.dataset.first === "up";
  for (const other of head.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[place].dataset.value, number = place > 0;
  body.append(...[...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (!x || !y) return !x - !y;
    return (up ? 1 : -1) * (number ? x - y : x.localeCompare(y));
  }));
});
