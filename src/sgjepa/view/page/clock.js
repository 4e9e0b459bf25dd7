// One clock for all panels: play, scrub, speed. It waits for frames that have not arrived yet.

export function makeClock(parts, onFrame) {
  let frames = 64, fps = 16, t = 0, playing = true, since = null, available = Infinity; // available: how many frames have arrived
  const last = () => Math.max(0, Math.min(frames, available) - 1);
  const show = () => {
    const frame = Math.floor(t);
    parts.scrub.value = frame;
    onFrame(frame);
  };
  const tick = (now) => {
    if (playing && since !== null) {
      const before = Math.floor(t);
      t += ((now - since) / 1000) * fps * Number(parts.speed.value);
      if (available < frames) t = Math.min(t, last());
      // the last frame stays for a moment, then it begins again
      else if (t >= frames + fps / 2) t = 0;
      if (Math.floor(Math.min(t, frames - 1)) !== before) { const full = t; t = Math.min(t, frames - 1); show(); t = full; }
    }
    since = now;
    requestAnimationFrame(tick);
  };
  const play = (is) => {
    playing = is;
    if (is && t >= frames - 1) t = 0;
    parts.play.textContent = is ? "❙❙" : "▶";
    parts.play.setAttribute("aria-label", is ? "Pause" : "Play");
  };
  const go = (frame) => { play(false); t = Math.max(0, Math.min(last(), frame)); show(); };
  parts.play.addEventListener("click", () => play(!playing));
  parts.scrub.addEventListener("input", () => go(Number(parts.scrub.value)));
  play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  requestAnimationFrame(tick);
  return {
    frame: () => Math.min(Math.floor(t), frames - 1),
    seconds: () => Math.min(Math.floor(t), frames - 1) / fps,
    toggle: () => play(!playing),
    step: (by) => go(Math.min(Math.floor(t), frames - 1) + by),
    play,
    go,
    limit(count) { available = count; },
    restart() { t = playing ? 0 : Math.min(t, last()); show(); },
    set(film) { frames = film.frames; fps = film.fps; parts.scrub.max = frames - 1; t = Math.min(t, frames - 1); },
  };
}
