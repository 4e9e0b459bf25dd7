// The page: it requests the selected models and draws the answers.

import { makeClock } from "view/clock";
import { makeErrorCurve } from "view/error_curve";
import { makePanel, middleOf } from "view/film";
import { makeLawFit } from "view/law_fit";
import { makePolicyScene } from "view/policy_scene";
import { makeSliders, spelled } from "view/sliders";
import { open } from "view/source";

const by = (id) => document.getElementById(id);
const METRICS = { position_l2: "position", velocity_l2: "velocity", angle_deg: "angle", rotation_turns: "rotation", nmse: "all that is probed", latent_mse: "latents" };

// pending: no answer to the newest request yet; outdated: the sliders have moved since that
const state = { scene: null, sliders: null, modelSliders: null, panels: new Map(), number: 0, pending: false, outdated: false, simulation: null, rollouts: new Map(), explanations: new Map(), request: null, law: "" };
const errorCurve = makeErrorCurve(by("error-curve"));
const lawFit = makeLawFit(by("law-fit"), by("law-fits"));
const clock = makeClock({ play: by("play"), scrub: by("scrub"), speed: by("speed") }, showFrame);
const policyScene = makePolicyScene({ panels: by("panels"), chart: by("success"), list: by("success-rates"), clock });
const ofPolicies = () => state.scene?.kind === "policy";

const source = await open(receive, showProblem);
const about = source.about;
for (const scene of about.scenes) {
  const twice = about.scenes.some((other) => other !== scene && other.title === scene.title);
  by("scene").add(new Option(scene.title + (twice && scene.kind === "policy" ? ", policies" : ""), scene.name));
}
by("scenes").hidden = about.scenes.length < 2;
by("scene").addEventListener("change", () => chooseScene());
by("seed").addEventListener("change", () => request());
by("before").addEventListener("click", () => step("seed", -1));
by("next").addEventListener("click", () => step("seed", 1));
by("sampling").addEventListener("change", () => request());
by("sampling-before").addEventListener("click", () => step("sampling", -1));
by("sampling-next").addEventListener("click", () => step("sampling", 1));
by("unlock").addEventListener("change", () => unlock());
by("metric").addEventListener("change", () => showErrors());
document.addEventListener("keydown", press);
addEventListener("resize", () => { if (ofPolicies()) { policyScene.chart(); return; } showErrors(); showLawFit(); });
if (source.seeds) by("seed").max = source.seeds.length - 1;
by("unlock").checked = false; // browsers restore the last state on return; the page starts from its defaults
for (const name of ["seed", "sampling"]) by(name).value = 0;
chooseScene();

function chooseScene() {
  const scene = about.scenes.find((each) => each.name === by("scene").value), before = state.scene;
  state.scene = scene;
  state.simulation = null;
  state.rollouts = new Map();
  state.explanations = new Map();
  lawFit.show(null, [], 0, 0);
  clock.set(scene);
  clock.limit(Infinity);
  showParts(scene);
  showTitle(scene);
  by("models").querySelector("legend").textContent = scene.kind === "policy" ? "Policies" : "Models";
  const boxes = scene.models.map((model) => {
    const label = document.createElement("label"), box = document.createElement("input"), dot = document.createElement("span");
    box.type = "checkbox";
    box.value = model.name;
    box.checked = true;
    box.addEventListener("change", () => { showBands(); showPanels(); request(); });
    dot.className = "dot";
    dot.style.setProperty("--colour", model.colour);
    label.append(box, dot, labelOf(model));
    return label;
  });
  by("models").replaceChildren(by("models").querySelector("legend"), ...boxes);
  const common = { steps: source.steps?.[scene.name], onMove: move, onRest: rest };
  state.sliders = makeSliders(by("law"), scene.laws, { ...common, prefix: "law", title: scene.kind === "policy" ? "" : "Simulation:" });
  state.modelSliders = makeSliders(by("model-law"), scene.laws, { ...common, prefix: "model-law", title: "Models:" });
  if (scene.opening) {
    // a page of a policy begins with an episode in which it succeeds
    by("seed").value = scene.opening.seed;
    by("sampling").value = scene.opening.sampling;
    state.sliders.put(scene.opening.law);
  } else if (before?.opening) for (const name of ["seed", "sampling"]) by(name).value = 0;
  showBands();
  document.querySelector(".laws").hidden = scene.laws.length === 0;
  const context = Math.max(0, ...scene.models.map((model) => model.context ?? 0));
  by("context").textContent = context;
  by("scrub").parentElement.style.setProperty("--observed", context ? context / (scene.frames - 1) : -1); // -1: nothing is shaded
  by("origin").textContent = source.steps ? "Computed before, for a grid of laws and launches." : `Open: ${scene.models.filter((model) => !model.reference).map((model) => model.name).join(", ")}`;
  showPanels();
  request();
}

function showTitle(scene) {
  const policies = scene.models.length > 2 ? "policies" : "policy";
  const law = scene.laws.length === 1 ? scene.laws[0].name.replaceAll("_", " ") : "the law";
  const what = scene.kind === "policy" ? `watch the ${policies} act` : "compare the rollouts with the simulation";
  document.querySelector("h1").textContent = scene.laws.length ? `Move ${law}, and ${what}` : what[0].toUpperCase() + what.slice(1);
  document.title = `${scene.title}: ${scene.kind === "policy" ? "policies" : "simulation and rollouts"}`;
}

function showParts(scene) {
  // data-for: what a part of the page needs, all of it
  const has = new Set([scene.kind, ...(scene.laws.length ? ["laws"] : []), ...(source.seeds ? [] : ["sampling"])]);
  for (const part of document.querySelectorAll("[data-for]")) part.hidden = !part.dataset.for.split(" ").every((need) => has.has(need));
  const opening = scene.opening ? ` The page begins with a success of ${scene.opening.label}, selected and not typical; the success rate is in the chart.` : "";
  by("task").textContent = scene.task ? `Its task: ${scene.task}.${opening}` : "";
}

function labelOf(model) {
  const same = state.scene.models.filter((other) => other.label === model.label).length > 1;
  return same ? model.name : model.label;
}

function selectedModels() {
  const names = new Set([...by("models").querySelectorAll("input:checked")].map((box) => box.value));
  return state.scene.models.filter((model) => names.has(model.name));
}

function showBands() {
  const trainings = selectedModels().filter((model) => !model.reference).map((model) => model.training);
  for (const sliders of [state.sliders, state.modelSliders]) sliders.showTraining(trainings);
}

function showPanels() {
  if (ofPolicies()) { policyScene.choose(state.scene, selectedModels().map((model) => ({ model, label: labelOf(model) }))); return; }
  state.panels = new Map([["", makePanel("Simulation", "var(--ink)")]]);
  for (const model of selectedModels()) state.panels.set(model.name, makePanel(labelOf(model), model.colour));
  by("panels").replaceChildren(...[...state.panels.values()].map((panel) => panel.root));
  by("panels").style.setProperty("--panels", state.panels.size);
  showErrors();
  showNotes();
  showLawFit();
}

function unlock() {
  const free = by("unlock").checked;
  by("model-law").hidden = !free;
  if (free) state.modelSliders.put(state.sliders.values());
  request();
}

function step(name, change) {
  const input = by(name), next = Number(input.value) + change;
  if (next < Number(input.min) || next > Number(input.max)) return;
  input.value = next;
  request();
}

// --- requests: while a slider moves only one is pending, and the newest follows it; a slider that rests requests at once ---

function move(law) {
  state.law = law;
  if (state.pending) state.outdated = true;
  else request();
}

function rest(law) {
  state.law = law;
  if (state.outdated || JSON.stringify(chosenRequest()) !== JSON.stringify(state.request)) request();
}

function chosenRequest() {
  const law = state.sliders.values();
  const modelLaw = by("unlock").checked && !ofPolicies() ? state.modelSliders.values() : law;
  const sampling = ofPolicies() ? wholeNumber("sampling") : 0;
  return { scene: state.scene.name, seed: wholeNumber("seed"), law, model_law: modelLaw, models: selectedModels().map((model) => model.name), sampling };
}

function wholeNumber(name) {
  return Math.round(Number(by(name).value)) || 0;
}

function request() {
  state.request = chosenRequest();
  state.outdated = false;
  state.pending = true;
  state.explanations = new Map();
  if (ofPolicies()) policyScene.begin(state.request, state.law);
  else { for (const [name, panel] of state.panels) if (name) panel.busy(true); showLawFit(); }
  state.number = source.request(state.request);
}

function receive(message) {
  if (message.kind === "error") {
    if (message.number !== null && message.number !== state.number) return;
    state.pending = false;
    for (const panel of state.panels.values()) panel.busy(false);
    showProblem(message.message);
    return;
  }
  if (message.number !== state.number) return;
  if (message.kind === "answered" && message.ms !== undefined) document.body.dataset.ms = message.ms;
  if (ofPolicies()) {
    // an episode takes seconds: a slider that moves begins the next one
    if (message.kind === "started") { showProblem(""); state.pending = false; }
    policyScene.receive(message);
  } else receiveOfModels(message);
  document.body.dataset.answered = `${message.number} ${message.kind}`;
  if (!state.pending && state.outdated) request();
}

function receiveOfModels(message) {
  if (message.kind === "simulation") { showProblem(""); state.simulation = withMiddles(message); showFrame(); }
  if (message.kind === "rollout") {
    state.rollouts.set(message.model, withMiddles(message));
    state.panels.get(message.model)?.busy(false);
    showFrame();
    showErrors();
    showNotes();
  }
  if (message.kind === "answered") { state.pending = false; showLawFit(); }
  if (message.kind === "explanation") { state.explanations.set(`${message.model} ${message.law}`, message); showLawFit(); }
}

function withMiddles(message) {
  return { ...message, middles: message.outline ? message.outline.map(middleOf) : [] };
}

// --- what was answered, on the page ---

function showFrame() {
  if (ofPolicies()) { by("time").textContent = `${clock.seconds().toFixed(2)} s`; policyScene.show(); return; }
  const t = clock.frame(), simulation = state.simulation;
  if (!state.scene || !simulation) return;
  by("time").textContent = `${clock.seconds().toFixed(2)} s`;
  const first = state.panels.get("");
  first.picture(simulation.film, t, `Frame ${t} of the simulation`);
  first.badge(`frame ${t}`, "plain");
  first.path("true-path", simulation.middles.slice(0, t + 1));
  let horizon = 0;
  for (const model of selectedModels()) {
    const panel = state.panels.get(model.name), rollout = state.rollouts.get(model.name), h = t - model.context;
    horizon = Math.max(horizon, h + 1);
    const observes = h < 0 || !rollout;
    panel.badge(h < 0 ? "observation" : `rollout ${h + 1}`, h < 0 ? "plain" : "own");
    if (observes) panel.picture(simulation.film, t, `Frame ${t}, observed by ${model.label}`);
    else if (rollout.film) panel.picture(rollout.film, Math.min(h, rollout.film.count - 1), `Frame ${t} as ${model.label} predicts it`);
    else panel.blank(`${model.label} has no picture decoder: only what its probe reads`);
    panel.outline("true", observes ? null : simulation.outline?.[t]);
    panel.outline("own", observes ? null : rollout.outline?.[h]);
    panel.path("true-path", observes ? [] : simulation.middles.slice(model.context, t + 1));
    panel.path("own-path", observes ? [] : rollout.middles.slice(0, h + 1));
  }
  errorCurve.at(horizon);
}

function showNotes() {
  state.panels.get("").note.textContent = "ground truth, as the models observe it";
  for (const model of selectedModels()) {
    const rollout = state.rollouts.get(model.name), note = state.panels.get(model.name).note;
    if (!rollout) continue;
    const chip = document.createElement("span"), factor = document.createElement("span");
    chip.className = `chip ${rollout.coverage.inside ? "better" : "worse"}`;
    chip.textContent = rollout.coverage.words;
    const sub = document.createElement("sub");
    sub.textContent = "law";
    if (rollout.coverage.L_law !== null) factor.append("L", sub, ` = ${Number(rollout.coverage.L_law.toPrecision(3))}`);
    factor.title = "Law coverage: 1 at the training mean. One step's error may be up to its root times that of training.";
    if (state.scene.laws.length === 0) note.replaceChildren("no law varies here");
    else if (model.blind) note.replaceChildren("not conditioned on the law: always given its training mean");
    else note.replaceChildren(chip, factor);
    if (!model.decodes) note.append(" no decoder: outlines only");
    if (!model.probes) note.append(" no probe: run `sgjepa evaluate --probe-only` for outlines");
  }
}

function showErrors() {
  const rollouts = selectedModels().map((model) => [model, state.rollouts.get(model.name)]).filter(([, rollout]) => rollout);
  const names = Object.keys(METRICS).filter((name) => rollouts.some(([, rollout]) => rollout.errors[name]));
  const select = by("metric"), before = select.value;
  if ([...select.options].map((option) => option.value).join() !== names.join()) {
    select.replaceChildren(...names.map((name) => new Option(METRICS[name], name)));
    if (names.includes(before)) select.value = before;
  }
  const metric = select.value, unit = about.units[metric] === "1" ? "" : about.units[metric] ?? "";
  const measured = rollouts.filter(([, rollout]) => rollout.errors[metric]);
  errorCurve.show(measured.map(([model, rollout]) => ({ label: labelOf(model), colour: model.colour, values: rollout.errors[metric] })), unit);
  showFrame();
}

function showLawFit() {
  const slider = state.scene.laws.find((each) => each.name === state.law) ?? state.scene.laws[0];
  if (!slider) { lawFit.show(null, [], 0, 0); return; }
  const withLabel = (model) => ({ label: labelOf(model), colour: model.colour });
  const blind = selectedModels().filter((model) => model.blind).map(withLabel);
  const awaited = selectedModels().filter((model) => !model.blind && model.training[slider.name]);
  const fits = awaited.map((model) => ({ ...withLabel(model), ...state.explanations.get(`${model.name} ${slider.name}`) })).filter((fit) => fit.values);
  by("law-fit").classList.toggle("busy", awaited.length > fits.length);
  if (awaited.length && fits.length === 0) return; // the chart of the request before stays, dimmed
  by("spacing").textContent = fits.length ? `; laws ${spelled(fits[0].values[1] - fits[0].values[0])} apart` : "";
  lawFit.show(slider, fits, state.request?.law[slider.name] ?? slider.start, state.request?.model_law[slider.name] ?? slider.start, blind);
}

function showProblem(text) {
  by("problem").textContent = text;
  by("problem").hidden = !text;
}

function alternate() {
  if (ofPolicies()) { if (!source.seeds) step("sampling", 1); return; }
  if (state.scene.laws.length === 0) return;
  by("unlock").checked = !by("unlock").checked;
  unlock();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const kind = event.target.type ?? "", typing = kind === "number" || event.target.tagName === "SELECT";
  const actions = { n: () => step("seed", 1), t: () => alternate() };
  if (kind !== "range" && !typing) {
    Object.assign(actions, { ArrowLeft: () => clock.step(-1), ArrowRight: () => clock.step(1), ArrowUp: () => state.sliders.nudge(1), ArrowDown: () => state.sliders.nudge(-1) });
  }
  if (kind !== "checkbox" && event.target.tagName !== "BUTTON" && !typing) actions[" "] = clock.toggle;
  const action = typing ? null : actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
