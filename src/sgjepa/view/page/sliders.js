// Sliders for laws. The band behind each shows the laws that the models were trained on.

export const INSIDE = 2; // standard deviations, as in sgjepa/view/scenes.py

export function unitOf(text) {
  return text.replace("^2", "²");
}

export function spelled(value) {
  // as short as two decimals allow, with a true minus
  return String(Math.round(value * 100) / 100).replace("-", "−");
}

export function makeSliders(root, laws, options) {
  // options: prefix of the ids, title, steps, onMove(law), onRest(law)
  const values = Object.fromEntries(laws.map((law) => [law.name, law.start]));
  const inputs = {};
  root.replaceChildren();
  for (const law of laws) {
    const row = document.createElement("div"), label = document.createElement("label"), input = document.createElement("input");
    const output = document.createElement("output"), ends = document.createElement("div");
    row.className = "law";
    input.type = "range";
    input.id = `${options.prefix}-${law.name}`;
    label.htmlFor = input.id;
    output.htmlFor = input.id;
    const words = `${options.title} ${law.name.replaceAll("_", " ")}`.trim();
    label.textContent = words[0].toUpperCase() + words.slice(1);
    const grid = options.steps?.[law.name];
    input.min = grid ? 0 : law.low;
    input.max = grid ? grid.length - 1 : law.high;
    input.step = grid ? 1 : law.step;
    const shareOf = (value) => (value - law.low) / (law.high - law.low);
    const mark = (text, share) => {
      const made = document.createElement("span");
      made.textContent = text;
      made.style.setProperty("--at", share);
      ends.append(made);
      return made;
    };
    const showTraining = (bands) => {
      // bands: [{mean, std}] of the models; shaded is what all of them were trained on
      const clip = (share) => Math.max(0, Math.min(1, share));
      const from = Math.max(...bands.map((band) => band.mean - INSIDE * band.std)), to = Math.min(...bands.map((band) => band.mean + INSIDE * band.std));
      const common = bands.length > 0 && from <= to;
      input.style.setProperty("--from", common ? clip(shareOf(from)) : 0);
      input.style.setProperty("--to", common ? clip(shareOf(to)) : 0);
      ends.replaceChildren();
      mark(spelled(law.low), 0);
      const differ = bands.some((band) => band.mean !== bands[0].mean || band.std !== bands[0].std);
      if (common) mark(differ ? "all trained here" : "trained here", clip(shareOf((from + to) / 2)));
      mark(spelled(law.high), 1);
    };
    ends.className = "ends";
    const showValue = () => {
      const text = `${spelled(values[law.name])} ${unitOf(law.unit)}`;
      output.textContent = `${law.symbol} = ${text}`;
      input.setAttribute("aria-valuetext", text);
    };
    const read = () => { values[law.name] = grid ? grid[Number(input.value)] : Number(input.value); showValue(); };
    const put = (value) => {
      const near = (list) => list.reduce((best, each, i) => (Math.abs(each - value) < Math.abs(list[best] - value) ? i : best), 0);
      values[law.name] = grid ? grid[near(grid)] : Math.max(law.low, Math.min(law.high, value));
      input.value = grid ? near(grid) : values[law.name];
      showValue();
    };
    input.addEventListener("input", () => { read(); options.onMove(law.name); });
    input.addEventListener("change", () => { read(); options.onRest(law.name); });
    row.append(label, output, input, ends);
    root.append(row);
    inputs[law.name] = { put, showTraining, step: grid ? null : law.step, grid };
    put(law.start);
  }
  return {
    values: () => ({ ...values }),
    showTraining(trainings) {
      // trainings: [{law: {mean, std}}] of the models that are chosen
      for (const [name, input] of Object.entries(inputs)) input.showTraining(trainings.map((training) => training?.[name]).filter(Boolean));
    },
    put(law) { for (const name of Object.keys(law)) inputs[name]?.put(law[name]); },
    nudge(by) {
      // the first law, by one step of the keyboard
      const [name, input] = Object.entries(inputs)[0] ?? [];
      if (!name) return;
      if (input.grid) input.put(input.grid[Math.max(0, Math.min(input.grid.length - 1, input.grid.indexOf(values[name]) + by))]);
      else input.put(values[name] + by * 10 * input.step);
      options.onRest(name);
    },
  };
}
