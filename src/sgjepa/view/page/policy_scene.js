// A scene of policies: frames as they arrive from the simulation, on the page's clock, and the outcome of every episode.

import { growingFilm, makePanel } from "view/film";
import { makeSuccess } from "view/success";

export function makePolicyScene(parts) {
  // parts: panels, chart, list, clock
  const success = makeSuccess(parts.chart, parts.list);
  let scene = null, players = [], panels = new Map(), films = new Map(), outcomes = new Map(), coverage = {}, request = null, slider = null;
  const played = new Map(); // episodes of this page, each once

  function show() {
    if (!scene) return;
    const t = parts.clock.frame();
    for (const { model, label } of players) {
      const panel = panels.get(model.name), film = films.get(model.name), outcome = outcomes.get(model.name);
      if (!film?.count) { panel.badge(model.reference ? "waiting" : "starting", "plain"); continue; }
      const last = outcome !== undefined && t >= film.count - 1;
      panel.picture(film, Math.min(t, film.count - 1), `Frame ${t} of ${label}`);
      panel.badge(last ? outcome.word : `frame ${Math.min(t, film.count - 1)}`, last ? (outcome.success ? "good" : "bad") : "plain");
    }
  }

  function notes() {
    for (const { model } of players) {
      const note = panels.get(model.name).note, outcome = outcomes.get(model.name), covered = coverage[model.name], chips = [];
      const chip = (kind, text) => { const made = document.createElement("span"); made.className = `chip ${kind}`; made.textContent = text; chips.push(made); };
      if (outcome) chip(outcome.success ? "better" : "worse", outcome.word);
      if (covered) chip(covered.inside ? "better" : "undecided", covered.inside ? "law in distribution" : covered.words);
      note.replaceChildren(...chips, outcome ? outcome.words : "acting …");
      if (model.blind) note.append(" (not conditioned on the law)");
    }
  }

  function chart() {
    if (scene) success.show(slider, players, slider ? request?.law[slider.name] ?? slider.start : 0, [...played.values()], scene.blind);
  }

  function limit() {
    // the clock waits for the slowest policy that still acts, but not for the expert
    const acting = players.filter(({ model }) => !model.reference && !outcomes.has(model.name));
    const counts = (acting.length ? acting : players).map(({ model }) => films.get(model.name)?.count ?? 0);
    parts.clock.limit(acting.length || !counts.length ? Math.max(1, Math.min(...counts, scene.frames)) : Infinity);
  }

  return {
    show, chart,
    choose(newScene, newPlayers) {
      // newPlayers: [{model, label}]
      if (newScene !== scene) played.clear();
      scene = newScene;
      players = newPlayers;
      films = new Map();
      outcomes = new Map();
      panels = new Map(players.map(({ model, label }) => [model.name, makePanel(label, model.colour)]));
      parts.panels.replaceChildren(...[...panels.values()].map((panel) => panel.root));
      parts.panels.style.setProperty("--panels", Math.max(1, players.length));
      notes();
    },
    begin(newest, law) {
      request = newest;
      slider = scene.laws.find((each) => each.name === law) ?? scene.laws[0] ?? null;
      chart();
    },
    receive(message) {
      const name = message.model;
      if (message.kind === "started") {
        films = new Map();
        outcomes = new Map();
        coverage = message.coverage;
        parts.clock.set(scene);
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
        outcomes.set(name, message);
        const key = JSON.stringify([name, request.law, request.seed, request.sampling]);
        played.set(key, { model: name, law: request.law, success: message.success, word: message.word, seed: request.seed });
        limit();
        notes();
        chart();
        show();
      }
      if (message.kind === "answered") {
        parts.clock.set({ frames: Math.max(1, ...[...films.values()].map((film) => film.count)), fps: scene.fps });
        parts.clock.limit(Infinity);
      }
    },
  };
}
