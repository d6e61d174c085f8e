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

  // The link that the reader chose, with selects or in the map: its box plots, its lines, its cell.
  const selects = () => [...document.querySelectorAll(".choices select")];

  function chosen() {
    const values = [];
    for (const select of selects()) values[select.dataset.dimension] = select.value;
    return values;
  }

  function choose(values) {
    for (const select of selects()) {
      const value = values[select.dataset.dimension];
      if ([...select.options].some((option) => option.value === value)) select.value = value;
    }
    show();
  }

  const matches = (places, values) => places.every((place, at) => !place || !values[at] || place === values[at]);

  function show() {
    const values = chosen();
    for (const plot of document.querySelectorAll(".plot")) {
      const waiting = plot.querySelector(".links > .later");
      const links = [...plot.querySelectorAll(".link")];
      const wanted = links.find((link) => matches(JSON.parse(link.dataset.places), values));
      if (!wanted && waiting) load(waiting).then(show);
      if (!wanted) continue;
      const along = JSON.parse(wanted.dataset.places).indexOf("");
      for (const link of links) link.hidden = link !== wanted;
      for (const panel of wanted.querySelectorAll("tbody")) {
        panel.hidden = Boolean(along >= 0 && values[along] && panel.dataset.value !== values[along]);
      }
    }
    for (const cell of document.querySelectorAll(".cell")) {
      cell.setAttribute("aria-pressed", matches(JSON.parse(cell.dataset.places), values));
    }
    for (const criterion of document.querySelectorAll(".criterion")) {
      const find = criterion.querySelector(".find");
      const isOnly = Boolean(find && find.querySelector("input").checked);
      const rows = [...criterion.querySelectorAll(".lines-of-cells tbody tr")];
      for (const row of [...rows, ...criterion.querySelectorAll(".passes tbody tr")]) {
        const places = [...row.cells].slice(0, values.length).map((cell) => cell.textContent.trim());
        const isChosen = matches(places, values);
        row.hidden = isOnly && !isChosen;
        row.classList.toggle("chosen", isChosen && !isOnly);
      }
      const shown = rows.filter((row) => !row.hidden).length;
      if (find) find.querySelector("output").textContent = `${shown} of ${rows.length} lines`;
    }
  }

  function find() {
    for (const select of selects()) {
      select.parentElement.hidden = false;
      select.addEventListener("change", () => {
        const values = chosen();
        values[select.dataset.dimension] = select.value;
        choose(values);
      });
    }
    for (const place of document.querySelectorAll(".find")) {
      place.hidden = false;
      place.querySelector("input").addEventListener("change", (event) => {
        for (const box of document.querySelectorAll(".find input")) box.checked = event.target.checked;
        show();
      });
    }
    for (const cell of document.querySelectorAll(".cell")) {
      cell.addEventListener("click", () => choose(JSON.parse(cell.dataset.places)));
    }
    show();
  }

  // The files that were delivered within a time, with the interval of Wilson at 95 %.
  function fitInto(lengthS) {
    const z2 = 1.959964 ** 2;
    for (const cell of document.querySelectorAll(".passes td[data-tried]")) {
      const n = Number(cell.dataset.tried);
      const k = cell.dataset.times.split(" ").filter((time) => time && Number(time) <= lengthS).length;
      const middle = (k + z2 / 2) / (n + z2);
      const half = Math.sqrt(z2 * ((k * (n - k)) / n + z2 / 4)) / (n + z2);
      const [low, high] = [middle - half, middle + half].map((bound) => Math.abs(100 * bound).toFixed(0));
      const interval = "determined" in cell.dataset ? (k ? "always" : "never") : `${low} to ${high} %`;
      cell.textContent = `${k} of ${n} (${interval})`;
    }
  }

  function passes() {
    for (const input of document.querySelectorAll(".pass-length input")) {
      input.addEventListener("input", () => input.checkValidity() && fitInto(input.valueAsNumber));
    }
  }

  // An explanation opens beside its button: on hover too.
  function explain() {
    for (const button of document.querySelectorAll(".why")) {
      const text = document.getElementById(button.getAttribute("popovertarget"));
      text.addEventListener("beforetoggle", () => {
        const place = button.getBoundingClientRect();
        text.style.left = `${Math.max(8, Math.min(place.left, innerWidth - Math.min(464, innerWidth - 16) - 8))}px`;
        text.style.top = `${place.bottom + 6}px`;
      });
      let isHovered = false;
      button.addEventListener("pointerenter", (event) => {
        isHovered = event.pointerType === "mouse" && !text.matches(":popover-open");
        if (isHovered) text.showPopover();
      });
      button.addEventListener("pointerleave", () => isHovered && text.hidePopover());
    }
  }

  // On paper: two pages of summary, or everything, with nothing folded away.
  async function unfold() {
    const isAll = document.documentElement.dataset.print === "all";
    for (const details of document.querySelectorAll("details:not([open])")) {
      if (!isAll && details.closest(".appendix, .criterion")) continue;
      details.open = true;
      details.dataset.opened = "";
    }
    if (isAll) await Promise.all([...document.querySelectorAll("[data-script]")].map(load));
  }

  function printAll(isAll) {
    document.documentElement.dataset.print = isAll ? "all" : "";
    document.getElementById("with-appendix").checked = isAll;
  }

  async function print() {
    printAll(document.getElementById("with-appendix").checked);
    await unfold();
    window.print();
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("[data-script]")) observer.observe(place);
    document.getElementById("printing").hidden = false;
    document.getElementById("print").addEventListener("click", print);
    printAll(new URLSearchParams(location.search).get("print") === "all");
    if (document.documentElement.dataset.print === "all") unfold();
    document.getElementById("with-appendix").addEventListener("change", (event) => printAll(event.target.checked));
    find();
    passes();
    explain();
    follow();
  });
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", unfold);
  addEventListener("afterprint", () => {
    for (const details of document.querySelectorAll("details[data-opened]")) {
      details.open = false;
      delete details.dataset.opened;
    }
  });
  return { drawing, part };
})();
