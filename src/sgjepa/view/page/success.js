// Success by law: what a policy's own trials say, over the laws of its training, and every episode that was played here.

import { boxOf, draw, frame, path } from "view/curve";
import { INSIDE, unitOf, written } from "view/laws";

const WORDS = { in: "inside the training laws", out: "outside", all: "of all episodes" };
const percent = (share) => `${Math.round(100 * share)} %`;

export function makeSuccess(root, list) {
  return {
    show(axis, series, law, played, blind = null) {
      // series: [{model, label}]; played: [{model, law, success}]; blind: success of an arm that sees only its own pose
      root.replaceChildren();
      list.replaceChildren(...series.map((one) => item(one, played)), ...(blind ? [blindItem(blind)] : []));
      if (!axis) return;
      const box = boxOf(root), mid = (box.height - box.bottom + box.top) / 2, half = (box.height - box.bottom - box.top) / 2 - 16;
      const x = (v) => box.left + ((v - axis.low) / (axis.high - axis.low)) * (box.width - box.left - box.right);
      const y = (share) => mid + half - 2 * half * share;
      const xTicks = [0, 0.25, 0.5, 0.75, 1].map((s) => axis.low + s * (axis.high - axis.low)).map((v) => [v, written(v)]);
      const yTicks = [0, 0.5, 1].map((v) => [v, percent(v)]);
      const words = series.map((one) => summary(one.model)).filter(Boolean).join("; ");
      const svg = frame(root, box, `Success by ${axis.name}: ${words || "no trials"}`, xTicks, x, yTicks, y, `${axis.name.replaceAll("_", " ")} (${unitOf(axis.unit)})`);
      const trainings = series.map((one) => one.model.training[axis.name]).filter(Boolean);
      for (const trained of trainings.filter((one, i) => trainings.findIndex((other) => other.mean === one.mean && other.std === one.std) === i)) {
        const [from, to] = [-1, 1].map((side) => Math.max(axis.low, Math.min(axis.high, trained.mean + side * INSIDE * trained.std)));
        const band = draw(svg, "rect", { class: "band", x: x(from), width: Math.max(1, x(to) - x(from)), y: box.top, height: box.height - box.top - box.bottom });
        svg.prepend(band);
      }
      if (blind) {
        const at = y(blind.regions.all.mean), text = `blind arm ${percent(blind.regions.all.mean)}`;
        draw(svg, "line", { class: "blind", x1: box.left, x2: box.width - box.right, y1: at, y2: at });
        draw(svg, "text", { class: "tick blind", x: box.width - box.right - 4, y: at - 5, "text-anchor": "end" }, text);
      }
      draw(svg, "line", { class: "true-law", x1: x(law), x2: x(law), y1: box.top, y2: box.height - box.bottom });
      for (const { model } of series) {
        const shares = model.success?.by_law?.[axis.name] ?? [];
        for (const one of shares) draw(svg, "line", { class: "interval", x1: x(one.law), x2: x(one.law), y1: y(one.low), y2: y(one.high), stroke: model.colour });
        if (shares.length) draw(svg, "path", { class: "line", d: path(x, y, shares.map((one) => one.law), shares.map((one) => one.mean)), stroke: model.colour });
        for (const one of shares) draw(svg, "circle", { class: "dot-mark", r: 3.5, cx: x(one.law), cy: y(one.mean), fill: model.colour });
      }
      marks(svg, x, y, series, played, axis);
    },
  };
}

function marks(svg, x, y, series, played, axis) {
  // successes in a row above 100 %, the others below 0 %; those at one place lean on each other
  const stacked = new Map();
  for (const one of played) {
    const model = series.find(({ model }) => model.name === one.model)?.model;
    if (!model) continue;
    const place = `${Math.round(x(one.law[axis.name]) / 8)} ${one.success}`, before = stacked.get(place) ?? 0;
    stacked.set(place, before + 1);
    const beside = x(one.law[axis.name]) + 5 * Math.ceil(before / 2) * (before % 2 ? 1 : -1);
    const cx = Math.max(x(axis.low), Math.min(x(axis.high), beside)), cy = one.success ? y(1) - 10 : y(0) + 10;
    const mark = one.success
      ? draw(svg, "circle", { class: "played", r: 5, cx, cy, fill: model.colour })
      : draw(svg, "path", { class: "played", d: `M${cx - 4.5} ${cy - 4.5}L${cx + 4.5} ${cy + 4.5}M${cx - 4.5} ${cy + 4.5}L${cx + 4.5} ${cy - 4.5}`, stroke: model.colour });
    draw(mark, "title", {}, `${model.label}: ${one.word}, launch ${one.seed}`);
  }
}

function summary(model) {
  const regions = model.success?.regions;
  if (!regions) return "";
  const names = regions.in && regions.out ? ["in", "out"] : ["all"];
  return names.map((name) => `${percent(regions[name].mean)} ${WORDS[name]}`).join(", ");
}

function blindItem(blind) {
  const row = document.createElement("li"), dash = document.createElement("span"), strong = document.createElement("b"), one = blind.regions.all;
  dash.className = "dash";
  strong.textContent = percent(one.mean);
  row.append(dash, "blind arm: ", strong, ` of all episodes (${Math.round(100 * one.low)} to ${Math.round(100 * one.high)}, ${one.episodes} episodes). A policy that is told the law and its own pose and sees nothing: the baseline that sight must beat.`);
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
    const one = regions[name], strong = document.createElement("b");
    strong.textContent = percent(one.mean);
    row.append(i ? ", " : "", strong, ` ${WORDS[name]} (${Math.round(100 * one.low)} to ${Math.round(100 * one.high)}, ${one.episodes} episodes)`);
  });
  if (!regions && !model.reference) {
    const command = document.createElement("code");
    command.textContent = "sgjepa evaluate-policy";
    row.append("no trial yet; ", command, " makes one");
  }
  const mine = played.filter((one) => one.model === model.name), done = mine.filter((one) => one.success).length;
  if (mine.length) row.append(`${regions || !model.reference ? ". " : ""}Played here: ${done} of ${mine.length}.`);
  else if (model.reference) row.append("does the task from the true state");
  return row;
}
