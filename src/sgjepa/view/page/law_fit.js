// Which law explains the frames best: for every model, the error of its latents under each law that it could be given.

import { boxOf, draw, frame, path } from "view/error_curve";
import { spelled, unitOf } from "view/sliders";

export function makeLawFit(root, list) {
  return {
    show(slider, fits, law, modelLaw, blind = []) {
      // fits: [{label, colour, values, errors, best}]; errors are shown relative to the lowest of each model
      // blind: [{label, colour}], models that are not conditioned on the law
      const box = boxOf(root);
      root.replaceChildren();
      list.replaceChildren();
      if (!slider) return;
      const item = (model, ...parts) => {
        const row = document.createElement("li"), dot = document.createElement("span");
        dot.className = "dot";
        dot.style.setProperty("--colour", model.colour);
        row.append(dot, `${model.label}: `, ...parts);
        list.append(row);
      };
      for (const model of blind) item(model, "not conditioned on the law, so none explains the frames better.");
      if (fits.length === 0) return;
      const x = (v) => box.left + ((v - slider.low) / (slider.high - slider.low)) * (box.width - box.left - box.right);
      const highest = Math.max(1.5, ...fits.map((fit) => Math.max(...fit.errors) / Math.min(...fit.errors)));
      const top = 2 ** Math.ceil(Math.log2(highest));
      const y = (v) => box.height - box.bottom - (Math.log2(v) / Math.log2(top)) * (box.height - box.top - box.bottom);
      const yTicks = [1, Math.sqrt(top), top].map((v) => [v, `×${Number(v.toPrecision(2))}`]);
      const xTicks = [0, 0.25, 0.5, 0.75, 1].map((s) => slider.low + s * (slider.high - slider.low)).map((v) => [v, spelled(v)]);
      const words = fits.map((fit) => `${fit.label}: ${spelled(fit.best)}`).join(", ");
      const title = `${slider.name.replaceAll("_", " ")} given to the model (${unitOf(slider.unit)})`;
      const svg = frame(root, box, `Law that explains the frames best, of each model: ${words}; of the simulation ${spelled(law)}`, xTicks, x, yTicks, y, title);
      const mark = (value, kind, text) => {
        draw(svg, "line", { class: kind, x1: x(value), x2: x(value), y1: box.top, y2: box.height - box.bottom });
        const right = x(value) > box.width - 90;
        draw(svg, "text", { class: `tick ${kind}`, x: x(value) + (right ? -5 : 5), y: kind === "simulation-law" ? 22 : 38, "text-anchor": right ? "end" : "start" }, text);
      };
      mark(law, "simulation-law", "simulation");
      if (modelLaw !== law) mark(modelLaw, "given-law", "given");
      for (const fit of fits) {
        const lowest = Math.min(...fit.errors);
        draw(svg, "path", { class: "line", d: path(x, y, fit.values, fit.errors.map((v) => v / lowest)), stroke: fit.colour });
        draw(svg, "circle", { class: "dot-mark", r: 6, cx: x(fit.best), cy: y(1), fill: fit.colour });
        const strong = document.createElement("b");
        strong.textContent = `${slider.symbol} = ${spelled(fit.best)}`;
        item(fit, strong, ` explains these frames best; the simulation has ${spelled(law)}.`);
      }
    },
  };
}
