// Sliders for laws. Behind each stands the band of laws that the models were trained on.

export const INSIDE = 2; // standard deviations, as sgjepa/view/coverage.py has it

export function unitOf(text) {
  return text.replace("^2", "²");
}

export function written(value) {
  // as short as two decimals allow, with a true minus
  return String(Math.round(value * 100) / 100).replace("-", "−");
}

export function makeSliders(root, axes, options) {
  // options: prefix of the names, training {law: {mean, std}}, steps, onMove(law), onRest(law)
  const values = Object.fromEntries(axes.map((axis) => [axis.name, axis.start]));
  const inputs = {};
  root.replaceChildren();
  for (const axis of axes) {
    const row = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input");
    const output = document.createElement("output"), ends = document.createElement("div");
    row.className = "law";
    input.type = "range";
    input.id = `${options.prefix}-${axis.name}`;
    label.htmlFor = input.id;
    output.htmlFor = input.id;
    label.textContent = `${options.title} ${axis.name.replaceAll("_", " ")}`;
    const grid = options.steps?.[axis.name];
    input.min = grid ? 0 : axis.low;
    input.max = grid ? grid.length - 1 : axis.high;
    input.step = grid ? 1 : axis.step;
    const place = (value) => (value - axis.low) / (axis.high - axis.low);
    const trained = options.training[axis.name];
    if (trained) {
      const clip = (share) => Math.max(0, Math.min(1, share));
      input.style.setProperty("--from", clip(place(trained.mean - INSIDE * trained.std)));
      input.style.setProperty("--to", clip(place(trained.mean + INSIDE * trained.std)));
    }
    ends.className = "ends";
    for (const [text, share] of [[written(axis.low), 0], ...(trained ? [["trained here", place(trained.mean)]] : []), [written(axis.high), 1]]) {
      const mark = document.createElement("span");
      mark.textContent = text;
      mark.style.setProperty("--at", share);
      ends.append(mark);
    }
    const say = () => {
      const text = `${written(values[axis.name])} ${unitOf(axis.unit)}`;
      output.textContent = `${axis.symbol} = ${text}`;
      input.setAttribute("aria-valuetext", text);
    };
    const read = () => { values[axis.name] = grid ? grid[Number(input.value)] : Number(input.value); say(); };
    const put = (value) => {
      const near = (list) => list.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(list[best] - value) ? i : best), 0);
      values[axis.name] = grid ? grid[near(grid)] : Math.max(axis.low, Math.min(axis.high, value));
      input.value = grid ? near(grid) : values[axis.name];
      say();
    };
    input.addEventListener("input", () => { read(); options.onMove(axis.name); });
    input.addEventListener("change", () => { read(); options.onRest(axis.name); });
    row.append(label, output, input, ends);
    root.append(row);
    inputs[axis.name] = { put, step: grid ? null : axis.step, grid };
    put(axis.start);
  }
  return {
    values: () => ({ ...values }),
    put(law) { for (const name of Object.keys(law)) inputs[name]?.put(law[name]); },
    nudge(by) {
      // the first law, by one step of the keyboard
      const [name, one] = Object.entries(inputs)[0] ?? [];
      if (!name) return;
      if (one.grid) one.put(one.grid[Math.max(0, Math.min(one.grid.length - 1, one.grid.indexOf(values[name]) + by))]);
      else one.put(values[name] + by * 10 * one.step);
      options.onRest(name);
    },
  };
}
