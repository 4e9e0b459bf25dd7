// The page: what is chosen, what was answered, and how the one is shown as the other.

import { makeClock } from "view/clock";
import { makeCurve } from "view/curve";
import { makeDrive } from "view/drive";
import { makePanel, middleOf } from "view/film";
import { makeSliders, written } from "view/laws";
import { open } from "view/source";
import { makeValley } from "view/valley";

const by = (id) => document.getElementById(id);
const NAMES = { position_l2: "position", velocity_l2: "velocity", angle_deg: "angle", rotation_turns: "rotation", nmse: "all that is probed", latent_mse: "latents" };

const state = { world: null, sliders: null, told: null, panels: new Map(), asked: 0, settled: true, again: false, truth: null, imagined: new Map(), explained: new Map(), question: null, law: "" };
const curve = makeCurve(by("curve"));
const valley = makeValley(by("valley"), by("answers"));
const clock = makeClock({ play: by("play"), scrub: by("scrub"), speed: by("speed") }, showFrame);
const drive = makeDrive({ stage: by("stage"), chart: by("success"), list: by("shares"), clock });
const drives = () => state.world?.kind === "drive";

const source = await open(receive, trouble);
const about = source.about;
for (const world of about.worlds) {
  const twice = about.worlds.some((one) => one !== world && one.title === world.title);
  by("world").add(new Option(world.title + (twice && world.kind === "drive" ? ", driven" : ""), world.name));
}
by("worlds").hidden = about.worlds.length < 2;
by("world").addEventListener("change", () => chooseWorld());
by("seed").addEventListener("change", () => ask());
by("before").addEventListener("click", () => launch(-1));
by("next").addEventListener("click", () => launch(1));
by("sampling").addEventListener("change", () => ask());
by("try-before").addEventListener("click", () => launch(-1, "sampling"));
by("try-next").addEventListener("click", () => launch(1, "sampling"));
by("unlock").addEventListener("change", () => unlock());
by("metric").addEventListener("change", () => showCurve());
document.addEventListener("keydown", press);
addEventListener("resize", () => { if (drives()) { drive.chart(); return; } showCurve(); showValley(); });
if (source.seeds) by("seed").max = source.seeds.length - 1;
by("unlock").checked = false; // browsers restore what was chosen when one comes back; the page begins anew
for (const name of ["seed", "sampling"]) by(name).value = 0;
chooseWorld();

function chooseWorld() {
  const world = about.worlds.find((one) => one.name === by("world").value), before = state.world;
  state.world = world;
  state.truth = null;
  state.imagined = new Map();
  state.explained = new Map();
  valley.show(null, [], 0, 0);
  clock.set(world);
  clock.limit(Infinity);
  showParts(world);
  const moved = world.laws.length === 1 ? `Move ${world.laws[0].name.replaceAll("_", " ")}, and watch` : world.laws.length ? "Move the law, and watch" : "Watch";
  const what = world.kind === "drive" ? `the ${world.models.length > 2 ? "policies" : "policy"} act` : "truth and imagination part";
  document.querySelector("h1").textContent = `${moved} ${what}`;
  document.title = `${world.title}: ${world.kind === "drive" ? "policies" : "truth and imagination"}`;
  by("models").querySelector("legend").textContent = world.kind === "drive" ? "Who drives" : "Models";
  const boxes = world.models.map((model) => {
    const label = document.createElement("label"), box = document.createElement("input"), dot = document.createElement("span");
    box.type = "checkbox";
    box.value = model.name;
    box.checked = true;
    box.addEventListener("change", () => { showBands(); showStage(); ask(); });
    dot.className = "dot";
    dot.style.setProperty("--colour", model.colour);
    label.append(box, dot, labelOf(model));
    return label;
  });
  by("models").replaceChildren(by("models").querySelector("legend"), ...boxes);
  const common = { steps: source.steps?.[world.name], onMove: move, onRest: rest };
  state.sliders = makeSliders(by("true"), world.laws, { ...common, prefix: "true", title: "True" });
  state.told = makeSliders(by("told"), world.laws, { ...common, prefix: "told", title: "Told" });
  if (world.opening) {
    // what a page of a policy begins with is an episode in which it succeeds
    by("seed").value = world.opening.seed;
    by("sampling").value = world.opening.sampling;
    state.sliders.put(world.opening.law);
  } else if (before?.opening) for (const name of ["seed", "sampling"]) by(name).value = 0;
  showBands();
  document.querySelector(".laws").hidden = world.laws.length === 0;
  const context = Math.max(0, ...world.models.map((model) => model.context ?? 0));
  by("context").textContent = context;
  by("scrub").parentElement.style.setProperty("--given", context ? context / (world.frames - 1) : -1); // -1: nothing is shaded
  by("origin").textContent = source.steps ? "Computed before: a grid of laws and launches." : `Shown: ${world.models.filter((model) => !model.reference).map((model) => model.name).join(", ")}`;
  showStage();
  ask();
}

function showParts(world) {
  // data-for: what a part of the page is for, all of which must be there
  const there = new Set([world.kind, ...(world.laws.length ? ["laws"] : []), ...(source.seeds ? [] : ["chance"])]);
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").every((need) => there.has(need));
  const begins = world.opening ? ` The page begins with a success of ${world.opening.label}: chosen, not typical; how often it succeeds is in the chart.` : "";
  by("task").textContent = world.task ? `Its task: ${world.task}.${begins}` : "";
}

function labelOf(model) {
  const same = state.world.models.filter((one) => one.label === model.label).length > 1;
  return same ? model.name : model.label;
}

function chosen() {
  const names = new Set([...by("models").querySelectorAll("input:checked")].map((box) => box.value));
  return state.world.models.filter((model) => names.has(model.name));
}

function showBands() {
  const trained = chosen().filter((model) => !model.reference).map((model) => model.training);
  for (const sliders of [state.sliders, state.told]) sliders.train(trained);
}

function showStage() {
  if (drives()) { drive.stage(state.world, chosen().map((model) => ({ model, label: labelOf(model) }))); return; }
  state.panels = new Map([["", makePanel("Truth", "var(--ink)")]]);
  for (const model of chosen()) state.panels.set(model.name, makePanel(labelOf(model), model.colour));
  by("stage").replaceChildren(...[...state.panels.values()].map((panel) => panel.root));
  by("stage").style.setProperty("--panels", state.panels.size);
  showCurve();
  showNotes();
  showValley();
}

function unlock() {
  const free = by("unlock").checked;
  by("told").hidden = !free;
  if (free) state.told.put(state.sliders.values());
  ask();
}

function launch(step, name = "seed") {
  const input = by(name), next = Number(input.value) + step;
  if (next < Number(input.min) || next > Number(input.max)) return;
  input.value = next;
  ask();
}

// --- questions: one is under way while the hand moves, the newest follows it; a hand that rests asks at once ---

function move(law) {
  state.law = law;
  if (state.settled) ask();
  else state.again = true;
}

function rest(law) {
  state.law = law;
  const now = JSON.stringify(question());
  if (state.again || now !== JSON.stringify(state.question)) ask();
}

function question() {
  const law = state.sliders.values();
  const told = by("unlock").checked && !drives() ? state.told.values() : law;
  const sampling = drives() ? whole("sampling") : 0;
  return { world: state.world.name, seed: whole("seed"), law, told, models: chosen().map((model) => model.name), sampling };
}

function whole(name) {
  return Math.round(Number(by(name).value)) || 0;
}

function ask() {
  state.question = question();
  state.again = false;
  state.settled = false;
  state.explained = new Map();
  if (drives()) drive.begin(state.question, state.law);
  else { for (const [name, panel] of state.panels) if (name) panel.busy(true); showValley(); }
  state.asked = source.ask(state.question);
}

function receive(message) {
  if (message.kind === "error") { if (message.number === null || message.number === state.asked) { state.settled = true; for (const panel of state.panels.values()) panel.busy(false); trouble(message.message); } return; }
  if (message.number !== state.asked) return;
  if (drives()) { driven(message); return; }
  if (message.kind === "truth") { trouble(""); state.truth = withMiddles(message); showFrame(); }
  if (message.kind === "imagined") {
    state.imagined.set(message.model, withMiddles(message));
    state.panels.get(message.model)?.busy(false);
    showFrame();
    showCurve();
    showNotes();
  }
  if (message.kind === "done") { state.settled = true; if (message.ms !== undefined) document.body.dataset.ms = message.ms; if (state.again) ask(); else showValley(); }
  if (message.kind === "explained") { state.explained.set(`${message.model} ${message.law}`, message); showValley(); }
  document.body.dataset.answered = `${message.number} ${message.kind}`;
}

function driven(message) {
  if (message.kind === "began") { trouble(""); state.settled = true; } // an episode takes seconds: a hand that moves begins the next one
  drive.receive(message);
  if (message.kind === "done" && message.ms !== undefined) document.body.dataset.ms = message.ms;
  document.body.dataset.answered = `${message.number} ${message.kind}`;
  if (message.kind === "began" && state.again) ask();
}

function withMiddles(message) {
  return { ...message, middles: message.outline ? message.outline.map(middleOf) : [] };
}

// --- what was answered, on the page ---

function showFrame() {
  if (drives()) { by("time").textContent = `${clock.seconds().toFixed(2)} s`; drive.show(); return; }
  const t = clock.frame(), world = state.world, truth = state.truth;
  if (!world || !truth) return;
  by("time").textContent = `${clock.seconds().toFixed(2)} s`;
  const first = state.panels.get("");
  first.picture(truth.film, t, `True frame ${t}`);
  first.badge(`frame ${t}`, "plain");
  first.way("true-way", truth.middles.slice(0, t + 1));
  let horizon = 0;
  for (const model of chosen()) {
    const panel = state.panels.get(model.name), found = state.imagined.get(model.name), h = t - model.context;
    horizon = Math.max(horizon, h + 1);
    const sees = h < 0 || !found;
    panel.badge(h < 0 ? "sees" : `imagines ${h + 1}`, h < 0 ? "plain" : "own");
    if (sees) panel.picture(truth.film, t, `Frame ${t}, given to ${model.label}`);
    else if (found.film) panel.picture(found.film, Math.min(h, found.film.count - 1), `Frame ${t} as ${model.label} imagines it`);
    else panel.blank(`${model.label} has no picture decoder: only what its probe sees`);
    panel.outline("true", sees ? null : truth.outline?.[t]);
    panel.outline("own", sees ? null : found.outline?.[h]);
    panel.way("true-way", sees ? [] : truth.middles.slice(model.context, t + 1));
    panel.way("own-way", sees ? [] : found.middles.slice(0, h + 1));
  }
  curve.at(horizon);
}

function showNotes() {
  state.panels.get("").note.textContent = "the simulator, as the models see it";
  for (const model of chosen()) {
    const found = state.imagined.get(model.name), note = state.panels.get(model.name).note;
    if (!found) continue;
    const chip = document.createElement("span"), factor = document.createElement("span");
    chip.className = `chip ${found.coverage.inside ? "better" : "worse"}`;
    chip.textContent = found.coverage.words;
    const sub = document.createElement("sub");
    sub.textContent = "law";
    if (found.coverage.L_law !== null) factor.append("L", sub, ` = ${Number(found.coverage.L_law.toPrecision(3))}`);
    factor.title = "Law coverage: 1 at the training mean. One step's error may be up to its root times that of training.";
    if (state.world.laws.length === 0) note.replaceChildren("no law varies here");
    else if (model.blind) note.replaceChildren("told the mean law of its training, whatever holds");
    else note.replaceChildren(chip, factor);
    if (!model.decodes) note.append(" no decoder: outlines only");
    if (!model.probes) note.append(" no probe: run `sgjepa evaluate --probe-only` for outlines");
  }
}

function showCurve() {
  const found = chosen().map((model) => [model, state.imagined.get(model.name)]).filter(([, one]) => one);
  const names = Object.keys(NAMES).filter((name) => found.some(([, one]) => one.errors[name]));
  const select = by("metric"), before = select.value;
  if ([...select.options].map((one) => one.value).join() !== names.join()) {
    select.replaceChildren(...names.map((name) => new Option(NAMES[name], name)));
    if (names.includes(before)) select.value = before;
  }
  const unit = about.units[select.value] === "1" ? "" : about.units[select.value] ?? "";
  curve.show(found.filter(([, one]) => one.errors[select.value]).map(([model, one]) => ({ label: labelOf(model), colour: model.colour, values: one.errors[select.value] })), unit);
  showFrame();
}

function showValley() {
  const axis = state.world.laws.find((one) => one.name === state.law) ?? state.world.laws[0];
  if (!axis) { valley.show(null, [], 0, 0); return; }
  const blind = chosen().filter((model) => model.blind).map((model) => ({ label: labelOf(model), colour: model.colour }));
  const asked = chosen().filter((model) => !model.blind && model.training[axis.name]);
  const found = asked.map((model) => ({ model, one: state.explained.get(`${model.name} ${axis.name}`) })).filter(({ one }) => one);
  by("valley").classList.toggle("busy", asked.length > found.length);
  if (asked.length && found.length === 0) return; // what stands there is of before, and dimmed
  by("apart").textContent = found.length ? `; laws ${written(found[0].one.values[1] - found[0].one.values[0])} apart` : "";
  valley.show(axis, found.map(({ model, one }) => ({ label: labelOf(model), colour: model.colour, ...one })), state.question?.law[axis.name] ?? axis.start, state.question?.told[axis.name] ?? axis.start, blind);
}

function another() {
  if (drives()) { if (!source.seeds) launch(1, "sampling"); return; }
  if (state.world.laws.length === 0) return;
  by("unlock").checked = !by("unlock").checked;
  unlock();
}

function trouble(text) {
  by("trouble").textContent = text;
  by("trouble").hidden = !text;
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const kind = event.target.type ?? "", typing = kind === "number" || event.target.tagName === "SELECT";
  const actions = { n: () => launch(1), t: () => another() };
  if (kind !== "range" && !typing) {
    Object.assign(actions, { ArrowLeft: () => clock.step(-1), ArrowRight: () => clock.step(1), ArrowUp: () => state.sliders.nudge(1), ArrowDown: () => state.sliders.nudge(-1) });
  }
  if (kind !== "checkbox" && event.target.tagName !== "BUTTON" && !typing) actions[" "] = clock.toggle;
  const action = typing ? null : actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
