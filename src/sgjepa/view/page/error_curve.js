// The error of every model over the horizon, with a line at the current frame; and the pieces that all charts share.

const SVG = "http://www.w3.org/2000/svg";

export function boxOf(root) {
  // a chart's units are the page's pixels, so that its text is as large as other text
  return { width: Math.max(280, Math.min(760, root.clientWidth || 560)), height: 240, left: 46, right: 12, top: 10, bottom: 38 };
}

export function draw(parent, kind, attributes, text) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

export function niceTop(value) {
  // the next of 1, 2, 2.5, 5 times a power of ten
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((top) => top >= value);
}

export function frame(root, box, what, xTicks, x, yTicks, y, xTitle) {
  const svg = draw(root, "svg", { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": what });
  for (const [value, text] of yTicks) {
    draw(svg, "line", { class: "grid", x1: box.left, x2: box.width - box.right, y1: y(value), y2: y(value) });
    draw(svg, "text", { class: "tick", x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, text);
  }
  for (const [value, text] of xTicks) draw(svg, "text", { class: "tick", x: x(value), y: box.height - 18, "text-anchor": "middle" }, text);
  draw(svg, "text", { class: "tick", x: (box.left + box.width) / 2, y: box.height - 3, "text-anchor": "middle" }, xTitle);
  return svg;
}

export function path(x, y, xs, ys) {
  let pen = "M";
  return ys.map((value, i) => {
    if (value === null) { pen = "M"; return ""; }
    const piece = `${pen}${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return piece;
  }).join("");
}

export function makeErrorCurve(root) {
  let cursor = null, moveTo = null, last = 1, dots = [];
  return {
    show(series, unit) {
      // series: [{label, colour, values}], by horizon from 1 on
      const box = boxOf(root);
      root.replaceChildren();
      const length = Math.max(1, ...series.map((line) => line.values.length));
      const top = niceTop(Math.max(0, ...series.flatMap((line) => line.values.filter((v) => v !== null))));
      const x = (h) => box.left + ((h - 1) / Math.max(1, length - 1)) * (box.width - box.left - box.right);
      const y = (v) => box.height - box.bottom - (v / top) * (box.height - box.top - box.bottom);
      const ticks = [0, 0.5, 1].map((share) => [share * top, Number((share * top).toPrecision(3)) + (unit && share === 1 ? ` ${unit}` : "")]);
      const steps = [1, ...[10, 20, 30, 40, 50, 60].filter((h) => h <= length)].map((h) => [h, h]);
      const words = series.map((line) => `${line.label} ends at ${line.values.at(-1)} ${unit}`).join(", ");
      const svg = frame(root, box, `Error over the horizon: ${words || "no model"}`, steps, x, ticks, y, "horizon (frames)");
      cursor = draw(svg, "line", { class: "cursor", x1: x(1), x2: x(1), y1: box.top, y2: box.height - box.bottom });
      dots = series.map((line) => {
        draw(svg, "path", { class: "line", d: path(x, y, line.values.map((_, i) => i + 1), line.values), stroke: line.colour });
        return { line, dot: draw(svg, "circle", { r: 5, cx: x(1), cy: y(0), fill: line.colour, class: "dot-mark" }) };
      });
      moveTo = (h) => {
        // no error and no cursor while the model observes
        const visible = series.length > 0 && h >= 1, at = Math.max(1, Math.min(length, h));
        cursor.setAttribute("visibility", visible ? "visible" : "hidden");
        for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(at));
        for (const { line, dot } of dots) {
          const value = visible ? line.values[at - 1] ?? null : null;
          dot.setAttribute("visibility", value === null ? "hidden" : "visible");
          if (value !== null) { dot.setAttribute("cx", x(at)); dot.setAttribute("cy", y(value)); }
        }
      };
      moveTo(last);
    },
    at(h) { last = h; moveTo?.(h); },
  };
}
