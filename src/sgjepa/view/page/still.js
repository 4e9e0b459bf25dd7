// Frames that were computed before: the same messages as from a server, out of the page itself and the pictures beside it.

import { sheetFilm } from "view/film";

export async function open(onMessage) {
  const data = JSON.parse(document.getElementById("data").textContent);
  const pictures = new Map();
  let number = 0;
  const picture = (name) => {
    if (!pictures.has(name)) {
      pictures.set(name, new Promise((done, failed) => {
        const image = new Image();
        image.onload = () => done(image);
        image.onerror = () => failed(new Error(name));
        image.src = name;
      }));
    }
    return pictures.get(name);
  };
  const key = (law) => Object.values(law).join(" ");
  const answer = async (mine, question) => {
    const launch = data.cases[question.world][question.seed];
    const truth = launch?.[key(question.law)];
    if (!truth) { onMessage({ number: mine, kind: "error", message: "This page was exported without that launch." }); return; }
    const tell = async (head) => {
      const message = { ...head, number: mine };
      if (head.sheet) message.film = sheetFilm(await picture(head.sheet.name), head.sheet.count, head.sheet.side, head.sheet.columns);
      if (mine === number) onMessage(message);
    };
    if (truth.played) {
      await tell(truth.began);
      for (const name of question.models) for (const one of truth.played[name]) await tell(one);
    } else {
      await tell(truth.truth);
      for (const name of question.models) await tell(truth.imagined[key(question.told)][name]);
    }
    await tell({ kind: "done" });
    for (const one of truth.explained ?? []) if (question.models.includes(one.model)) await tell(one);
    await tell({ kind: "rest" });
  };
  return {
    about: data.about,
    steps: data.steps,
    seeds: data.seeds,
    ask(question) {
      number += 1;
      const mine = number;
      setTimeout(() => answer(mine, question).catch((error) => onMessage({ number: mine, kind: "error", message: `A picture is missing: ${error.message}` })));
      return mine;
    },
  };
}
