// Frames from the server: questions as JSON over a socket, answers as a header with pictures behind it.

import { rawFilm } from "view/film";

const AGAIN = 1500; // ms between attempts to reach a server that went away

export async function open(onMessage, onTrouble) {
  const about = await (await fetch("/about")).json();
  let socket = null, number = 0, last = null; // last: the newest question, asked again of a server that came back
  const send = (text) => { last = text; if (socket.readyState === WebSocket.OPEN) socket.send(text); };
  const connect = () => {
    socket = new WebSocket(`ws://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { onTrouble(""); if (last) socket.send(last); };
    socket.onmessage = (event) => onMessage(decode(event.data));
    socket.onclose = () => { onTrouble("The server has stopped. Start `sgjepa view` again; this page waits for it."); setTimeout(connect, AGAIN); };
  };
  connect();
  return {
    about,
    ask(question) { number += 1; send(JSON.stringify({ number, ...question })); return number; },
  };
}

function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const pixels = new Uint8Array(buffer, 4 + length);
  if (pixels.length) head.film = rawFilm(pixels, head.frames, head.side);
  return head;
}
