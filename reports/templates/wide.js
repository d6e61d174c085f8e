"use strict";
// What is wider or higher than its place scrolls by itself, says so, and takes the focus.
function markWideTables() {
  for (const wide of document.querySelectorAll(".wide:not([role]), .lines:not([role])")) {
    const isWide = wide.scrollWidth > wide.clientWidth;
    if (!isWide && wide.scrollHeight <= wide.clientHeight + 1) continue;
    const isText = wide.matches(".lines");
    if (isWide) wide.dataset.sideways = "";
    const what = isText ? "Lines" : isWide ? "Table, wider than the page" : "Table that scrolls";
    const label = `${what}: ${headingOf(wide)}`;
    const same = [...document.querySelectorAll("[data-label]")].filter((each) => each.dataset.label === label);
    wide.dataset.label = label;
    wide.setAttribute("role", "region");
    wide.setAttribute("aria-label", same.length ? `${label}, ${same.length + 1}` : label);
    wide.tabIndex = 0;
  }
}

function headingOf(place) {
  const caption = place.querySelector("caption");
  if (caption) return caption.textContent.trim();
  const part = place.closest("section, .part");
  return part ? part.querySelector("h2, h3").textContent.trim() : "";
}

document.addEventListener("DOMContentLoaded", markWideTables);
addEventListener("resize", markWideTables);
document.addEventListener("toggle", markWideTables, true);
