// One statement of the answer is chosen; the passages take the colours of its sources.
const statements = [...document.querySelectorAll(".statement")], results = [...document.querySelectorAll(".result")];
const sources = [...document.querySelectorAll("[data-source]")];
function choose(chosen) {
  statements.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
  results.forEach((section, i) => { section.hidden = i !== chosen; });
  const shades = statements[chosen].dataset.shades.split(" ").map(shade => shade.split(":"));
  sources.forEach(source => {
    const [side, strength] = shades[+source.dataset.source];
    for (const other of ["for", "against"]) source.classList.toggle(other, other === side);
    source.style.setProperty("--s", strength);
  });
}
statements.forEach((button, i) => {
  button.addEventListener("click", () => choose(i));
  button.addEventListener("keydown", event => {
    const to = event.key === "ArrowRight" ? i + 1 : event.key === "ArrowLeft" ? i - 1 : -1;
    if (statements[to]) { statements[to].focus(); choose(to); event.preventDefault(); }
  });
});
if (statements.length) choose(0);
