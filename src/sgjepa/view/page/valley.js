// Which law explains the frames best: for every model the error of its latents under each law it could have been told.

import { boxOf, draw, frame, path } from "view/curve";
import { unitOf, written } from "view/laws";

export function makeValley(root, list) {
  return {
    show(axis, found, law, told, blind = []) {
      // found: [{label, colour, values, errors, best}]; errors are shown relative to the lowest of each model
      // blind: [{label, colour}], models that are not told the law
      const box = boxOf(root);
      root.replaceChildren();
      list.replaceChildren();
      if (!axis) return;
      const item = (one, ...parts) => {
        const row = document.createElement("li"), dot = document.createElement("span");
        dot.className = "dot";
        dot.style.setProperty("--colour", one.colour);
        row.append(dot, `${one.label}: `, ...parts);
        list.append(row);
      };
      for (const one of blind) item(one, "not told the law, so none explains the frames better.");
      if (found.length === 0) return;
      const x = (v) => box.left + ((v - axis.low) / (axis.high - axis.low)) * (box.width - box.left - box.right);
      const most = Math.max(1.5, ...found.map((one) => Math.max(...one.errors) / Math.min(...one.errors)));
      const top = 2 ** Math.ceil(Math.log2(most));
      const y = (v) => box.height - box.bottom - (Math.log2(v) / Math.log2(top)) * (box.height - box.top - box.bottom);
      const yTicks = [1, Math.sqrt(top), top].map((v) => [v, `×${Number(v.toPrecision(2))}`]);
      const xTicks = [0, 0.25, 0.5, 0.75, 1].map((s) => axis.low + s * (axis.high - axis.low)).map((v) => [v, written(v)]);
      const words = found.map((one) => `${one.label}: ${written(one.best)}`).join(", ");
      const title = `${axis.name.replaceAll("_", " ")} told (${unitOf(axis.unit)})`;
      const svg = frame(root, box, `Law that explains the frames best, of each model: ${words}; true ${written(law)}`, xTicks, x, yTicks, y, title);
      const mark = (value, kind, text) => {
        draw(svg, "line", { class: kind, x1: x(value), x2: x(value), y1: box.top, y2: box.height - box.bottom });
        const far = x(value) > box.width - 70;
        draw(svg, "text", { class: `tick ${kind}`, x: x(value) + (far ? -5 : 5), y: kind === "true-law" ? 22 : 38, "text-anchor": far ? "end" : "start" }, text);
      };
      mark(law, "true-law", "true");
      if (told !== law) mark(told, "told-law", "told");
      for (const one of found) {
        const least = Math.min(...one.errors);
        draw(svg, "path", { class: "line", d: path(x, y, one.values, one.errors.map((v) => v / least)), stroke: one.colour });
        draw(svg, "circle", { class: "dot-mark", r: 6, cx: x(one.best), cy: y(1), fill: one.colour });
        const strong = document.createElement("b");
        strong.textContent = `${axis.symbol} = ${written(one.best)}`;
        item(one, strong, ` explains these frames best; true is ${written(law)}.`);
      }
    },
  };
}
