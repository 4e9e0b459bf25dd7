// Frames from the server: requests as JSON over a socket, answers as a header with frames behind it.

import { rawFilm } from "view/film";

const RETRY = 1500; // ms between attempts to reach a server that went away

export async function open(onMessage, onProblem) {
  const about = await (await fetch("/about")).json();
  let socket = null, number = 0, last = null; // last: the newest request, sent again to a server that came back
  const send = (text) => { last = text; if (socket.readyState === WebSocket.OPEN) socket.send(text); };
  const connect = () => {
    socket = new WebSocket(`ws://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { onProblem(""); if (last) socket.send(last); };
    socket.onmessage = (event) => onMessage(decode(event.data));
    socket.onclose = () => { onProblem("The server has stopped. Start `sgjepa view` again; this page waits for it."); setTimeout(connect, RETRY); };
  };
  connect();
  return {
    about,
    request(content) { number += 1; send(JSON.stringify({ number, ...content })); return number; },
  };
}

function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const pixels = new Uint8Array(buffer, 4 + length);
  if (pixels.length) header.film = rawFilm(pixels, header.frames, header.side);
  return header;
}
