// Films, and the panel for one: a small canvas that the style enlarges pixel by pixel, with outlines over it.

const SVG = "http://www.w3.org/2000/svg";

export function rawFilm(bytes, count, side) {
  // bytes: (count, side, side, 3)
  const picture = new ImageData(side, side);
  return {
    count, side,
    draw(context, t) {
      const rgba = picture.data, start = t * side * side * 3;
      for (let i = 0, o = start; i < rgba.length; i += 4, o += 3) {
        rgba[i] = bytes[o]; rgba[i + 1] = bytes[o + 1]; rgba[i + 2] = bytes[o + 2]; rgba[i + 3] = 255;
      }
      context.putImageData(picture, 0, 0);
    },
  };
}

export function sheetFilm(image, count, side, columns) {
  // image: frames in rows of `columns`
  return {
    count, side,
    draw(context, t) {
      context.drawImage(image, (t % columns) * side, Math.floor(t / columns) * side, side, side, 0, 0, side, side);
    },
  };
}

export function growingFilm() {
  // a film to which pieces are added as they arrive
  const pieces = [];
  return {
    count: 0, side: 0,
    add(piece) { pieces.push({ piece, from: this.count }); this.count += piece.count; this.side = piece.side; },
    draw(context, t) {
      const { piece, from } = pieces.findLast((each) => each.from <= t);
      piece.draw(context, t - from);
    },
  };
}

export function middleOf(curve) {
  // the middle of a closed curve, in thousandths of the picture; null where it cannot be seen
  let x = 0, y = 0;
  for (const point of curve) {
    if (point === null) return null;
    x += point[0];
    y += point[1];
  }
  return [Math.round(x / curve.length), Math.round(y / curve.length)];
}

function readableOn(colour) {
  // black or white, whichever stands out more
  const parts = /^#(..)(..)(..)$/.exec(colour);
  if (!parts) return "#fff";
  const [red, green, blue] = parts.slice(1).map((hex) => { const v = parseInt(hex, 16) / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#111" : "#fff";
}

export function makePanel(title, colour) {
  const root = document.createElement("article");
  root.className = "panel";
  root.style.setProperty("--colour", colour);
  root.style.setProperty("--on-colour", readableOn(colour));
  const head = document.createElement("h2"), note = document.createElement("p"), box = document.createElement("div");
  head.textContent = title;
  note.className = "note";
  box.className = "picture";
  const canvas = document.createElement("canvas"), lines = document.createElementNS(SVG, "svg"), badge = document.createElement("span");
  canvas.setAttribute("role", "img");
  lines.setAttribute("viewBox", "0 0 1000 1000");
  lines.setAttribute("aria-hidden", "true");
  badge.className = "badge";
  const shapes = {};
  for (const name of ["true-path", "own-path", "true", "own"]) {
    shapes[name] = document.createElementNS(SVG, name.endsWith("path") ? "polyline" : "polygon");
    shapes[name].setAttribute("class", name);
    lines.append(shapes[name]);
  }
  box.append(canvas, lines, badge);
  root.append(head, box, note);
  const points = (curve) => (curve && !curve.includes(null) ? curve.map((p) => p.join(",")).join(" ") : "");
  return {
    root, note, head,
    picture(film, t, what) {
      if (canvas.width !== film.side) { canvas.width = film.side; canvas.height = film.side; }
      film.draw(canvas.getContext("2d"), t);
      box.classList.remove("blank");
      canvas.setAttribute("aria-label", what);
    },
    blank(what) {
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      box.classList.add("blank");
      canvas.setAttribute("aria-label", what);
    },
    badge(text, kind) { badge.textContent = text; badge.dataset.kind = kind; },
    outline(name, curve) { shapes[name].setAttribute("points", points(curve)); },
    path(name, middles) { shapes[name].setAttribute("points", middles.filter(Boolean).map((p) => p.join(",")).join(" ")); },
    busy(is) { root.classList.toggle("busy", is); },
  };
}
