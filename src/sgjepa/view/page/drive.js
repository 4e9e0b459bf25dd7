// Policies at the wheel: frames as they arrive from the simulation, on the page's clock, and what every episode came to.

import { growingFilm, makePanel } from "view/film";
import { makeSuccess } from "view/success";

export function makeDrive(parts) {
  // parts: stage, chart, list, clock
  const success = makeSuccess(parts.chart, parts.list);
  let world = null, players = [], panels = new Map(), films = new Map(), ends = new Map(), coverage = {}, question = null, axis = null;
  const played = new Map(); // episodes of this page, each once

  function show() {
    if (!world) return;
    const t = parts.clock.frame();
    for (const { model, label } of players) {
      const panel = panels.get(model.name), film = films.get(model.name), end = ends.get(model.name);
      if (!film?.count) { panel.badge(model.reference ? "waits" : "begins", "plain"); continue; }
      const last = end !== undefined && t >= film.count - 1;
      panel.picture(film, Math.min(t, film.count - 1), `Frame ${t} of ${label}`);
      panel.badge(last ? end.word : `frame ${Math.min(t, film.count - 1)}`, last ? (end.success ? "good" : "bad") : "plain");
    }
  }

  function notes() {
    for (const { model } of players) {
      const note = panels.get(model.name).note, end = ends.get(model.name), far = coverage[model.name], chips = [];
      const chip = (kind, text) => { const made = document.createElement("span"); made.className = `chip ${kind}`; made.textContent = text; chips.push(made); };
      if (end) chip(end.success ? "better" : "worse", end.word);
      if (far) chip(far.inside ? "better" : "undecided", far.inside ? "law of its training" : far.words);
      note.replaceChildren(...chips, end ? end.words : "drives …");
      if (model.blind) note.append(" (not told the law)");
    }
  }

  function chart() {
    if (world) success.show(axis, players, axis ? question?.law[axis.name] ?? axis.start : 0, [...played.values()], world.blind);
  }

  function limit() {
    // the clock waits for the slowest policy that still drives; nobody waits for the demonstrator
    const driving = players.filter(({ model }) => !model.reference && !ends.has(model.name));
    const counts = (driving.length ? driving : players).map(({ model }) => films.get(model.name)?.count ?? 0);
    parts.clock.limit(driving.length || !counts.length ? Math.max(1, Math.min(...counts, world.frames)) : Infinity);
  }

  return {
    show, chart,
    stage(shown, chosen) {
      // chosen: [{model, label}]
      if (shown !== world) played.clear();
      world = shown;
      players = chosen;
      films = new Map();
      ends = new Map();
      panels = new Map(players.map(({ model, label }) => [model.name, makePanel(label, model.colour)]));
      parts.stage.replaceChildren(...[...panels.values()].map((panel) => panel.root));
      parts.stage.style.setProperty("--panels", Math.max(1, players.length));
      notes();
    },
    begin(asked, law) {
      question = asked;
      axis = world.laws.find((one) => one.name === law) ?? world.laws[0] ?? null;
      chart();
    },
    receive(message) {
      const name = message.model;
      if (message.kind === "began") {
        films = new Map();
        ends = new Map();
        coverage = message.coverage;
        parts.clock.set(world);
        limit();
        parts.clock.restart();
        notes();
      }
      if (message.kind === "frame") {
        if (!films.has(name)) films.set(name, growingFilm());
        films.get(name).add(message.film);
        limit();
        if (parts.clock.frame() >= films.get(name).count - message.film.count) show();
      }
      if (message.kind === "outcome") {
        ends.set(name, message);
        const key = JSON.stringify([name, question.law, question.seed, question.sampling]);
        played.set(key, { model: name, law: question.law, success: message.success, word: message.word, seed: question.seed });
        limit();
        notes();
        chart();
        show();
      }
      if (message.kind === "done") {
        parts.clock.set({ frames: Math.max(1, ...[...films.values()].map((film) => film.count)), fps: world.fps });
        parts.clock.limit(Infinity);
      }
    },
  };
}
