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
  // options: prefix of the names, steps, onMove(law), onRest(law)
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
    const mark = (text, share) => {
      const made = document.createElement("span");
      made.textContent = text;
      made.style.setProperty("--at", share);
      ends.append(made);
      return made;
    };
    const train = (bands) => {
      // bands: [{mean, std}] of the models; shaded is what all of them were trained on
      const clip = (share) => Math.max(0, Math.min(1, share));
      const from = Math.max(...bands.map((one) => one.mean - INSIDE * one.std)), to = Math.min(...bands.map((one) => one.mean + INSIDE * one.std));
      const shown = bands.length > 0 && from <= to;
      input.style.setProperty("--from", shown ? clip(place(from)) : 0);
      input.style.setProperty("--to", shown ? clip(place(to)) : 0);
      ends.replaceChildren();
      mark(written(axis.low), 0);
      const differ = bands.some((one) => one.mean !== bands[0].mean || one.std !== bands[0].std);
      if (shown) mark(differ ? "all trained here" : "trained here", clip(place((from + to) / 2)));
      mark(written(axis.high), 1);
    };
    ends.className = "ends";
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
    inputs[axis.name] = { put, train, step: grid ? null : axis.step, grid };
    put(axis.start);
  }
  return {
    values: () => ({ ...values }),
    train(trainings) {
      // trainings: [{law: {mean, std}}] of the models that are shown
      for (const [name, one] of Object.entries(inputs)) one.train(trainings.map((each) => each?.[name]).filter(Boolean));
    },
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
