// The charts of the emulator's panel: samples once a second while the page is seen, drawn with uPlot.
"use strict";

const POLL_MS = 1000;
const HEIGHT = 180;
const charts = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axis() {
  return { stroke: colour("--muted"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { stroke: colour("--rule") } };
}

function timeAxis() {
  const text = (seconds) => new Date(1000 * seconds).toLocaleTimeString([], { hour12: false });
  return { ...axis(), space: 80, values: (_, splits) => splits.map(text) };
}

function newChart(element, data) {
  const line = (label, name, dash) => ({ label, stroke: colour(name), width: 2, dash, points: { show: false } });
  return new uPlot({
    width: element.clientWidth,
    height: HEIGHT,
    scales: { y: { range: (_, low, high) => [0, Math.max(1.05 * (high ?? 0), 1)] } },
    axes: [timeAxis(), { ...axis(), size: 60 }],
    series: [{ label: "time" }, line("forward", "--series-0"), line("reverse", "--series-1", [6, 4])],
  }, data, element);
}

function draw(columns) {
  for (const element of document.querySelectorAll(".chart")) {
    const name = element.dataset.series;
    const data = [columns.at_s, columns[`forward_${name}`], columns[`reverse_${name}`]];
    if (charts.has(element)) charts.get(element).setData(data);
    else charts.set(element, newChart(element, data));
  }
}

function forget() {
  for (const [element, chart] of charts) {
    chart.destroy();
    charts.delete(element);
  }
}

async function poll() {
  if (document.visibilityState === "visible") {
    const answer = await fetch("/emulator/samples", { cache: "no-store" }).catch(() => null);
    if (answer && answer.ok) draw(await answer.json());
  }
  setTimeout(poll, POLL_MS);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
addEventListener("resize", forget);
poll();
