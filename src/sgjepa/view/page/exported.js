// Exported frames: the messages of a server, from the page and the pictures in its folder.

import { sheetFilm } from "view/film";

export async function open(onMessage) {
  const data = JSON.parse(document.getElementById("data").textContent);
  const pictures = new Map();
  let number = 0;
  const load = (name) => {
    if (!pictures.has(name)) {
      pictures.set(name, new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = () => reject(new Error(name));
        image.src = name;
      }));
    }
    return pictures.get(name);
  };
  const key = (law) => Object.values(law).join(" ");
  const answer = async (mine, request) => {
    const launch = data.cases[request.scene][request.seed];
    const computed = launch?.[key(request.law)];
    if (!computed) { onMessage({ number: mine, kind: "error", message: "This page was exported without that launch." }); return; }
    const deliver = async (header) => {
      const message = { ...header, number: mine };
      if (header.sheet) message.film = sheetFilm(await load(header.sheet.name), header.sheet.count, header.sheet.side, header.sheet.columns);
      if (mine === number) onMessage(message);
    };
    if (computed.episodes) {
      await deliver(computed.started);
      for (const name of request.models) for (const header of computed.episodes[name]) await deliver(header);
    } else {
      await deliver(computed.simulation);
      for (const name of request.models) await deliver(computed.rollouts[key(request.model_law)][name]);
    }
    await deliver({ kind: "answered" });
    for (const header of computed.explanations ?? []) if (request.models.includes(header.model)) await deliver(header);
    await deliver({ kind: "finished" });
  };
  return {
    about: data.about,
    steps: data.steps,
    seeds: data.seeds,
    request(content) {
      number += 1;
      const mine = number;
      setTimeout(() => answer(mine, content).catch((error) => onMessage({ number: mine, kind: "error", message: `A picture is missing: ${error.message}` })));
      return mine;
    },
  };
}
