"use strict";
// Parts of the page that are scripts beside it are loaded when they come into view, or when a link leads to them.
const owlt = (() => {
  const loading = new Map();

  function load(place) {
    const address = place.dataset.script;
    if (!address) return Promise.resolve();
    if (!loading.has(address)) {
      loading.set(address, new Promise((done) => {
        const script = document.createElement("script");
        script.src = address;
        script.onload = script.onerror = () => done();
        document.head.append(script);
      }));
    }
    return loading.get(address);
  }

  function fragment(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  }

  // A drawing takes the place of the image with the same content.
  function drawing(name, svg) {
    for (const image of document.querySelectorAll(`img[data-script="figures/${CSS.escape(name)}.js"]`)) {
      image.replaceWith(fragment(svg));
    }
  }

  // A part takes the place of what stands for it; rows that of the rows in their body.
  function part(name, html) {
    const place = document.getElementById(`part-${name}`);
    if (!place) return;
    if (place.tagName === "TBODY") {
      place.replaceChildren(fragment(html));
      place.classList.remove("later");
      place.removeAttribute("data-script");
    } else {
      place.replaceWith(fragment(html));
    }
    markWideTables();
  }

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      load(entry.target);
    }
  }, { rootMargin: "600px" });

  // Where a link leads: the details around it are opened, and the rows of a run are loaded first.
  async function follow() {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    if (name.startsWith("run-") && !document.getElementById(name)) {
      const body = [...document.querySelectorAll("tbody[data-runs]")].find(
        (each) => each.dataset.runs.split(" ").includes(name.slice(4)));
      if (body) await load(body);
    }
    const place = document.getElementById(name);
    if (!place) return;
    for (let around = place; around; around = around.parentElement) {
      if (around.tagName === "DETAILS") around.open = true;
    }
    for (const former of document.querySelectorAll(".target")) former.classList.remove("target");
    place.classList.add("target");
    bringIntoView(place, name.startsWith("run-") ? "center" : "start");
  }

  // Sections that come near are laid out only then, which moves the place: it is brought back for some frames.
  function bringIntoView(place, block, frames = 30) {
    const top = place.getBoundingClientRect().top;
    if (frames === 30 || top < 0 || top > innerHeight) place.scrollIntoView({ block });
    if (frames) requestAnimationFrame(() => bringIntoView(place, block, frames - 1));
  }

  // Of the lines of the answer, those of the link that the reader chose; in the tables of all criteria.
  function find() {
    const places = [...document.querySelectorAll(".find")];
    for (const place of places) {
      place.hidden = false;
      const chosen = [...place.querySelectorAll("select")];
      for (const [at, select] of chosen.entries()) {
        select.addEventListener("change", () => {
          for (const other of places) other.querySelectorAll("select")[at].value = select.value;
          show(chosen.map((each) => each.value));
        });
      }
    }
  }

  function show(values) {
    for (const place of document.querySelectorAll(".find")) {
      const rows = [...place.closest(".criterion").querySelectorAll(".lines-of-cells tbody tr")];
      for (const row of rows) {
        row.hidden = values.some((value, at) => value && row.cells[at].textContent.trim() !== value);
      }
      const shown = rows.filter((row) => !row.hidden).length;
      place.querySelector("output").textContent = `${shown} of ${rows.length} lines`;
    }
  }

  // Nothing that is folded away is missing on paper.
  async function print() {
    for (const details of document.querySelectorAll("details")) details.open = true;
    await Promise.all([...document.querySelectorAll("[data-script]")].map(load));
    window.print();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("[data-script]")) observer.observe(place);
    document.getElementById("print").hidden = false;
    document.getElementById("print").addEventListener("click", print);
    find();
    follow();
  });
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      details.dataset.opened = "";
    }
  });
  addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-opened]")) {
      details.open = false;
      delete details.dataset.opened;
    }
  });
  return { drawing, part };
})();
