// How values read: times, durations, statuses, ids.

const GLYPHS = {
  queued: "◌", pending: "◌", running: "▶", started: "▶", retrying: "↻", suspended: "‖", sleeping: "☾", waiting: "‖", sleep: "☾", wait: "‖", milestone: "◆",
  completed: "✓", continued: "↻", succeeded: "✓", reused: "✓", failed: "✕", cancelled: "⊘", compensating: "↶", compensated: "⟲",
  compensation_failed: "⚠", lost: "?", settled: "·", draft: "✎", active: "✓", declined: "⊘", serving: "●", draining: "◒", stopped: "■",
};
const TONES = {
  running: "busy", started: "busy", retrying: "warn", suspended: "warn", waiting: "warn", completed: "good",
  succeeded: "good", reused: "good", failed: "bad", compensation_failed: "bad", cancelled: "off", compensated: "undone",
  compensating: "undone", lost: "bad", draft: "warn", active: "good", declined: "off", serving: "good", draining: "warn", stopped: "off",
};
export const glyph = (status) => GLYPHS[status] || "·";
export const tone = (status) => TONES[status] || "calm";
export const words = (status) => (status || "").replaceAll("_", " ");
export const ENDED = new Set(["completed", "failed", "cancelled", "compensated", "compensation_failed"]);

export const ms = (instant) => (instant ? Date.parse(instant) : null);

const sameDay = (one, other) => one.toDateString() === other.toDateString();
export function localTime(instant, now = new Date()) {
  if (!instant) return "–";
  const date = new Date(instant);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (sameDay(date, now)) return time;
  return `${date.toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" })} ${time}`;
}

export function span(millis) {
  if (millis === null || millis === undefined || Number.isNaN(millis)) return "–";
  const value = Math.max(0, millis);
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
  const units = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];
  let rest = value;
  const parts = [];
  for (const [name, size] of units) {
    const count = Math.floor(rest / size);
    if (count || parts.length) { parts.push(`${count} ${name}`); rest -= count * size; }
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export function middle(text, most = 22) {
  const value = String(text ?? "");
  if (value.length <= most) return value;
  const head = Math.ceil((most - 1) / 2);
  return `${value.slice(0, head)}…${value.slice(value.length - (most - 1 - head))}`;
}

const WHO = {
  any: () => "anybody",
  owner: (user) => (user ? `${user}, who started it,` : "whoever started it"),
  "not-initiator": (user) => (user ? `anybody but ${user}, who started it,` : "anybody but who started it"),
};

/** An open wait, as a sentence: who is to do what, and until when. */
export function waitWords(wait) {
  const until = wait.until ? ` until ${localTime(wait.until)}` : "";
  if (wait.kind === "approval") {
    return `waits for ${(WHO[wait.approvers] || WHO.any)(wait.user)}${wait.scope ? ` with the scope ${wait.scope}` : ""} to answer “${wait.question || wait.name}”${until}`;
  }
  return wait.kind === "gate" ? `waits for somebody to open “${wait.question || wait.name}”${until}` : `waits for the signal “${wait.name}”${until}`;
}

/** What a run waits for, as a sentence. */
export function waitingWords(run) {
  const waiting = run.waiting_on || "";
  if (!waiting) return "";
  const wait = (run.waits || []).find((one) => waiting === `${one.kind} ${one.key}` || waiting === `${one.kind} ${one.name}`);
  if (wait) return waitWords(wait) + (run.waits.length > 1 ? `, and for ${run.waits.length - 1} more` : "");
  if (waiting.startsWith("sleep until ")) return `sleeps until ${localTime(waiting.slice(12))}`;
  if (run.status === "suspended") return `needs somebody: ${waiting}`;
  return `waits for ${waiting}`;
}

/** An ISO 8601 duration of the API, such as PT0.25S or P1DT2H, in milliseconds. */
export function isoMillis(text) {
  const found = /^-?P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/.exec(text || "");
  if (!found) return null;
  const [days, hours, minutes, seconds] = found.slice(1).map((part) => Number(part || 0));
  return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000;
}

export const baseKey = (key) => key.replace(/#\d+$/, "").replace(/\[\d+\]$/, "");
export const size = (value) => JSON.stringify(value ?? null).length;
