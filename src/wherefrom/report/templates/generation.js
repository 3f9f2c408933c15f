// One generated token is chosen; the prompt takes its colours, and its column of the grid an outline.
const prompt_ = document.getElementById("prompt"), scores = JSON.parse(prompt_.dataset.scores), signed = prompt_.dataset.signed === "1";
const steps = [...document.querySelectorAll(".step")], cells = [...document.querySelectorAll(".matrix [data-step]")];
function choose(step) {
  steps.forEach((button, i) => {
    button.setAttribute("aria-pressed", i === step);
    const score = i < step ? scores[step][scores[step].length - steps.length + i] : 0;
    paint(button, score);
  });
  cells.forEach(cell => cell.classList.toggle("chosen", +cell.dataset.step === step));
  prompt_.querySelectorAll("[data-place]").forEach(token => paint(token, scores[step][+token.dataset.place]));
}
function paint(element, score) {
  element.classList.add("t");
  for (const side of ["for", "against", "only"]) element.classList.toggle(side, side === (signed ? (score < 0 ? "against" : "for") : "only"));
  element.style.setProperty("--s", Math.min(1, Math.abs(score)).toFixed(3));
}
steps.forEach((button, i) => {
  button.addEventListener("pointerenter", () => choose(i));
  button.addEventListener("focus", () => choose(i));
  button.addEventListener("click", () => choose(i));
  button.addEventListener("keydown", event => {
    const to = event.key === "ArrowRight" ? i + 1 : event.key === "ArrowLeft" ? i - 1 : -1;
    if (steps[to]) { steps[to].focus(); event.preventDefault(); }
  });
});
cells.forEach(cell => cell.addEventListener("click", () => choose(+cell.dataset.step)));
if (steps.length) choose(0);
