// A run's story: from its timeline's items, how it stood after any of them. The same rules as the server's fold.

import { localTime, ms } from "./format.js";

const UID_LENGTH = 36;
const WAIT = { waiting: 1, wait_cancelled: 1, expired: 1, taken: 1, accepted: 1, opened: 1 };
const END = { completed: "completed", continued: "completed", compensated: "compensated", compensation_failed: "compensation_failed" };

/** Steps and status after the items up to number `until` (all of them, if null). */
export function storyOf(items, until = null) {
  const steps = new Map();
  const story = { status: "queued", steps, marks: [], error: null, output: undefined, at: null, from: null, waits: new Map(), reason: "", state: {} };
  for (const item of items) {
    if (until !== null && item.seq > until) break;
    story.at = item.at;
    story.from = story.from || item.at;
    if (item.step && STEP[item.kind]) takeStep(story, steps, item);
    else takeRun(story, item);
  }
  const gate = [...story.waits.values()].find((wait) => /^(gate|approval) /.test(wait.detail));
  if (gate && story.status === "running" && ![...steps.values()].some((step) => OPEN.has(step.status))) {
    story.status = "suspended";
    story.reason = `needs somebody: ${gate.name}${gate.until ? `, until ${localTime(gate.until)}` : ""}`;
  }
  return story;
}

const OPEN = new Set(["pending", "started", "retrying"]);

const STEP = {
  pending: 1, started: 1, retrying: 1, succeeded: 1, failed: 1, cancelled: 1, lost: 1, settled: 1, reused: 1, progressed: 1,
  undo_registered: 1, kept: 1,
};

function takeStep(story, steps, item) {
  let step = steps.get(item.step);
  if (!step || ((item.kind === "started" || item.kind === "pending" || item.kind === "reused") && item.name && step.status !== "pending")) {
    if (!step) {
      step = { key: item.step, function: item.name, status: "pending", attempts: [], asked: item.at, seq: item.seq, doneSeq: null, arguments: item.value, compensates: "", child: null };
      if (item.step.startsWith("compensate:")) step.compensates = item.step.slice("compensate:".length);
      steps.set(item.step, step);
    }
  }
  step.child = item.child || step.child;
  const last = step.attempts[step.attempts.length - 1];
  if (story.status === "queued") story.status = "running";
  switch (item.kind) {
    case "pending": step.status = "pending"; break;
    case "started":
      step.status = "started";
      step.attempts.push({ number: item.attempt, from: item.at, to: null, status: "started", writer: item.writer });
      break;
    case "reused": step.status = "succeeded"; step.doneSeq = step.doneSeq ?? item.seq; break;
    case "undo_registered": step.hasUndo = true; break;
    case "kept": step.isKept = true; break;
    case "progressed": step.progress = item.value; break;
    case "cancelled": step.status = "cancelled"; close(last, item, "cancelled"); break;
    case "settled": if (last) { last.settled = item.error ? "failed" : "succeeded"; last.to = item.at; } break;
    default:
      step.status = item.kind === "lost" ? "retrying" : item.kind;
      step.error = item.error || (item.kind === "succeeded" ? null : step.error);
      if (item.kind === "succeeded") { step.result = item.value; step.doneSeq = item.seq; }
      step.until = item.until || null;
      close(last, item, item.kind === "retrying" ? "failed" : item.kind);
  }
}

function close(attempt, item, status) {
  if (attempt && attempt.to === null) Object.assign(attempt, { to: item.at, status, error: item.error || null });
}

function takeRun(story, item) {
  switch (item.kind) {
    case "queued": break;
    case "sleeping": story.marks.push({ kind: "sleep", from: item.at, to: null, until: item.until, name: "sleep" }); break;
    case "slept": case "sleep_cancelled": {
      const sleep = story.marks.find((mark) => mark.kind === "sleep" && mark.to === null);
      if (sleep) sleep.to = item.at;
      break;
    }
    case "state": story.state[item.name] = item.value; break;
    case "milestone": story.marks.push({ kind: "milestone", from: item.at, to: item.at, name: item.name }); break;
    case "suspended": story.status = "suspended"; story.reason = `${item.name}: ${item.detail}`; break;
    case "resumed": story.status = "running"; story.reason = ""; break;
    case "reopened": story.status = item.name === "unwind" ? "compensating" : "queued"; story.error = null; break;
    case "compensating": story.status = "compensating"; story.error = item.error; break;
    case "failed": story.status = "failed"; story.error = item.error; break;
    case "cancelled": story.status = "cancelled"; story.error = item.error; break;
    default:
      if (END[item.kind]) { story.status = END[item.kind]; story.output = item.value; story.error = item.error || story.error; }
      else if (WAIT[item.kind]) takeWait(story, item);
      else if (story.status === "queued") story.status = "running";
  }
}

function takeWait(story, item) {
  const key = item.step || item.name;
  if (item.kind === "waiting") {
    story.waits.set(key, item);
    story.marks.push({ kind: "wait", key, from: item.at, to: null, until: item.until, name: item.name });
  } else {
    story.waits.delete(key);
    const wait = story.marks.find((mark) => mark.kind === "wait" && mark.key === key && mark.to === null);
    if (wait) wait.to = item.at;
  }
}

/** With the rows of children that are opened below their steps, and of theirs: `children` has them by uid, as
    { run, story }; null while one is loaded. What is selected in a child is known by its uid and its own key. */
export function nestedRowsOf(story, children, depth = 0, prefix = "") {
  return rowsOf(story).flatMap((row) => {
    const placed = { ...row, key: prefix + row.key, depth };
    const child = row.step && row.step.child && children.get(row.step.child);
    if (!child) return [placed];
    return [placed, ...nestedRowsOf(child.story, children, depth + 1, `${row.step.child}/`)];
  });
}

/** The step that was selected, with the run whose it is. */
export function findStep(selected, run, story, children) {
  if (!selected) return null;
  const child = children.get(selected.slice(0, UID_LENGTH));
  const isInChild = child && selected[UID_LENGTH] === "/";
  const owner = isInChild ? child : { run, story };
  const step = owner.story.steps.get(isInChild ? selected.slice(UID_LENGTH + 1) : selected);
  return step ? { ...owner, step, isInChild } : null;
}

/** Rows of the waterfall: steps in the order of their calls, each followed by what undid it; waits and sleeps between. */
export function rowsOf(story) {
  const rows = [];
  const undone = new Map();
  for (const step of story.steps.values()) if (step.compensates) undone.set(step.compensates, step);
  for (const step of story.steps.values()) {
    if (step.compensates && story.steps.has(step.compensates)) continue;
    const from = ms(step.asked);
    rows.push({ kind: "step", key: step.key, step, from, place: from });
    const undo = undone.get(step.key);
    if (undo) rows.push({ kind: "step", key: undo.key, step: undo, from: ms(undo.asked), place: from, isUndo: true });
  }
  story.marks.forEach((mark, i) => rows.push({ kind: mark.kind, key: `${mark.kind} ${i}`, mark, from: ms(mark.from), place: ms(mark.from) }));
  return rows.sort((one, other) => one.place - other.place);
}
