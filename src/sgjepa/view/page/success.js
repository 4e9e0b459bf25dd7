// Success by law: a policy's trials, over the laws of its training, and every episode of this page.

import { boxOf, draw, frame, path } from "view/error_curve";
import { INSIDE, spelled, unitOf } from "view/sliders";

const WORDS = { in: "inside the training laws", out: "outside", all: "of all episodes" };
const percent = (share) => `${Math.round(100 * share)} %`;

export function makeSuccess(root, list) {
  return {
    show(slider, series, law, played, blind = null) {
      // series: [{model, label}]; played: [{model, law, success}]; blind: success of a policy that observes only its own pose
      root.replaceChildren();
      list.replaceChildren(...series.map((each) => item(each, played)), ...(blind ? [blindItem(blind)] : []));
      if (!slider) return;
      const box = boxOf(root), mid = (box.height - box.bottom + box.top) / 2, half = (box.height - box.bottom - box.top) / 2 - 16;
      const x = (v) => box.left + ((v - slider.low) / (slider.high - slider.low)) * (box.width - box.left - box.right);
      const y = (share) => mid + half - 2 * half * share;
      const xTicks = [0, 0.25, 0.5, 0.75, 1].map((s) => slider.low + s * (slider.high - slider.low)).map((v) => [v, spelled(v)]);
      const yTicks = [0, 0.5, 1].map((v) => [v, percent(v)]);
      const words = series.map(({ model }) => summary(model)).filter(Boolean).join("; ");
      const svg = frame(root, box, `Success by ${slider.name}: ${words || "no trials"}`, xTicks, x, yTicks, y, `${slider.name.replaceAll("_", " ")} (${unitOf(slider.unit)})`);
      const trainings = series.map(({ model }) => model.training[slider.name]).filter(Boolean);
      const first = (training, i) => trainings.findIndex((other) => other.mean === training.mean && other.std === training.std) === i;
      for (const training of trainings.filter(first)) {
        const [from, to] = [-1, 1].map((side) => Math.max(slider.low, Math.min(slider.high, training.mean + side * INSIDE * training.std)));
        const band = draw(svg, "rect", { class: "band", x: x(from), width: Math.max(1, x(to) - x(from)), y: box.top, height: box.height - box.top - box.bottom });
        svg.prepend(band);
      }
      if (blind) {
        const at = y(blind.regions.all.mean), text = `blind baseline ${percent(blind.regions.all.mean)}`;
        draw(svg, "line", { class: "blind", x1: box.left, x2: box.width - box.right, y1: at, y2: at });
        draw(svg, "text", { class: "tick blind", x: box.width - box.right - 4, y: at - 5, "text-anchor": "end" }, text);
      }
      draw(svg, "line", { class: "simulation-law", x1: x(law), x2: x(law), y1: box.top, y2: box.height - box.bottom });
      for (const { model } of series) {
        const rates = model.success?.by_law?.[slider.name] ?? [];
        for (const rate of rates) draw(svg, "line", { class: "interval", x1: x(rate.law), x2: x(rate.law), y1: y(rate.low), y2: y(rate.high), stroke: model.colour });
        if (rates.length) draw(svg, "path", { class: "line", d: path(x, y, rates.map((rate) => rate.law), rates.map((rate) => rate.mean)), stroke: model.colour });
        for (const rate of rates) draw(svg, "circle", { class: "dot-mark", r: 3.5, cx: x(rate.law), cy: y(rate.mean), fill: model.colour });
      }
      marks(svg, x, y, series, played, slider);
    },
  };
}

function marks(svg, x, y, series, played, slider) {
  // successes in a row above 100 %, the others below 0 %; marks of nearly the same law stand side by side
  const stacked = new Map();
  for (const episode of played) {
    const model = series.find(({ model }) => model.name === episode.model)?.model;
    if (!model) continue;
    const spot = `${Math.round(x(episode.law[slider.name]) / 8)} ${episode.success}`, before = stacked.get(spot) ?? 0;
    stacked.set(spot, before + 1);
    const markX = x(episode.law[slider.name]) + 5 * Math.ceil(before / 2) * (before % 2 ? 1 : -1);
    const cx = Math.max(x(slider.low), Math.min(x(slider.high), markX)), cy = episode.success ? y(1) - 10 : y(0) + 10;
    const mark = episode.success
      ? draw(svg, "circle", { class: "played", r: 5, cx, cy, fill: model.colour })
      : draw(svg, "path", { class: "played", d: `M${cx - 4.5} ${cy - 4.5}L${cx + 4.5} ${cy + 4.5}M${cx - 4.5} ${cy + 4.5}L${cx + 4.5} ${cy - 4.5}`, stroke: model.colour });
    draw(mark, "title", {}, `${model.label}: ${episode.word}, launch ${episode.seed}`);
  }
}

function summary(model) {
  const regions = model.success?.regions;
  if (!regions) return "";
  const names = regions.in && regions.out ? ["in", "out"] : ["all"];
  return names.map((name) => `${percent(regions[name].mean)} ${WORDS[name]}`).join(", ");
}

function blindItem(blind) {
  const row = document.createElement("li"), dash = document.createElement("span"), strong = document.createElement("b"), rate = blind.regions.all;
  dash.className = "dash";
  strong.textContent = percent(rate.mean);
  row.append(dash, "blind baseline: ", strong, ` of all episodes (${Math.round(100 * rate.low)} to ${Math.round(100 * rate.high)}, ${rate.episodes} episodes). A policy that is given the law and its own pose and observes nothing else.`);
  return row;
}

function item({ model, label }, played) {
  const row = document.createElement("li"), dot = document.createElement("span");
  dot.className = "dot";
  dot.style.setProperty("--colour", model.colour);
  row.append(dot, `${label}: `);
  const regions = model.success?.regions;
  const names = regions ? (regions.in && regions.out ? ["in", "out"] : ["all"]) : [];
  names.forEach((name, i) => {
    const rate = regions[name], strong = document.createElement("b");
    strong.textContent = percent(rate.mean);
    row.append(i ? ", " : "", strong, ` ${WORDS[name]} (${Math.round(100 * rate.low)} to ${Math.round(100 * rate.high)}, ${rate.episodes} episodes)`);
  });
  if (!regions && !model.reference) {
    const command = document.createElement("code");
    command.textContent = "sgjepa evaluate-policy";
    row.append("no trials yet: run ", command);
  }
  const own = played.filter((episode) => episode.model === model.name), successes = own.filter((episode) => episode.success).length;
  if (own.length) row.append(`${regions || !model.reference ? ". " : ""}On this page: ${successes} of ${own.length}.`);
  else if (model.reference) row.append("acts on the true state");
  return row;
}
