// Titles appear late and not at all on touch screens; where scripts run, show them at once and inside the window.
const tip = document.getElementById("tip");
document.addEventListener("pointerover", event => {
  const spot = event.target.closest("[title],[data-tip]");
  if (!spot) { tip.style.visibility = "hidden"; return; }
  if (spot.title) { spot.dataset.tip = spot.title; spot.removeAttribute("title"); }
  tip.textContent = spot.dataset.tip;
  const box = spot.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(box.left, innerWidth - tip.offsetWidth - 6)) + "px";
  tip.style.top = (box.top > tip.offsetHeight + 12 ? box.top - tip.offsetHeight - 6 : box.bottom + 6) + "px";
  tip.style.visibility = "visible";
});
