// One run: its plan and its waterfall side by side, a slider through its past, and the details of what is selected.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { follow, get, runPath } from "./api.js";
import { Fork, RunActions } from "./actions.js";
import { ENDED, localTime, middle, span, ms, waitingWords, words } from "./format.js";
import { Box, Copy, CopyMark, Empty, Failure, Loading, RunLink, Status, Time, Took, Trouble, Value, useData, useNow } from "./parts.js";
import { Plan } from "./plan.js";
import { go, href } from "./router.js";
import { findStep, storyOf } from "./story.js";
import { Waterfall } from "./waterfall.js";

const PORTION_MS = 60;
const PULSE_MS = 500;
const REOPENED_MS = 5000;
const FIRST_PAGE = 300;
const PAGE = 10_000;

/** The timeline: what there is in one piece, then as it grows, in portions that are drawn once each. `pulse` counts slowly
    while it grows, for what has to be asked again. A run that was reopened after its end is followed on from there. */
function useTimeline(run) {
  const [items, setItems] = useState([]);
  const [live, setLive] = useState(true);
  const [pulse, setPulse] = useState(0);
  const [round, setRound] = useState(0);
  const [whole, setWhole] = useState(false);
  const seen = useRef({ uid: null, seq: -1, run: null, atEnd: null });
  seen.current.run = run;
  useEffect(() => {
    const { atEnd } = seen.current;
    if (run && atEnd && run !== atEnd && (!ENDED.has(run.status) || run.finished_at !== atEnd.finished_at)) setRound((n) => n + 1);
  }, [run]);
  useEffect(() => {
    if (!run) return undefined;
    const mine = seen.current;
    const abort = new AbortController();
    let waiting = [];
    let timer = null;
    let pulsing = null;
    let stop = () => {};
    const add = (portion) => {
      if (!portion.length || abort.signal.aborted) return;
      mine.seq = portion[portion.length - 1].seq;
      setItems((all) => all.concat(portion));
    };
    const beat = () => { pulsing = null; setPulse((n) => n + 1); };
    const flush = () => {
      timer = null;
      add(waiting.splice(0));
      pulsing = pulsing || setTimeout(beat, PULSE_MS);
    };
    const listen = () => {
      stop = follow(runPath(run, "/events"), { uid: run.uid, after: mine.seq }, {
        onMessage: (item) => { waiting.push(item); timer = timer || setTimeout(flush, PORTION_MS); },
        onState: setLive,
        onEnd: () => { mine.atEnd = mine.run; flush(); setWhole(true); setLive(true); beat(); },
      });
    };
    if (mine.uid !== run.uid) { Object.assign(mine, { uid: run.uid, seq: -1 }); setItems([]); setWhole(false); }
    mine.atEnd = null;
    readTimeline(run, mine.seq, abort.signal, add).then((isAll) => {
      if (abort.signal.aborted) return;
      if (isAll) setWhole(true);
      if (isAll && ENDED.has(run.status)) mine.atEnd = run;
      else listen();
    }, () => abort.signal.aborted || listen());
    return () => { stop(); clearTimeout(timer); clearTimeout(pulsing); add(waiting.splice(0)); abort.abort(); };
  }, [run?.uid, round]);
  return { items, live, pulse, whole };
}

/** Told in a first piece that is there at once, and a second; gives whether that is all. What is longer is streamed. */
async function readTimeline(run, after, signal, tell) {
  let last = after;
  for (const limit of [FIRST_PAGE, PAGE]) {
    const page = await get(runPath(run, "/timeline"), { uid: run.uid, after: last, limit }, signal);
    if (page.length) last = page[page.length - 1].seq;
    tell(page);
    if (page.length < limit) return true;
  }
  return false;
}

export function RunView({ id, query, changes }) {
  const { data: run, problem, again } = useData((signal) => get(runPath({ id }), { uid: query.uid }, signal), [id, query.uid]);
  const { items, live, pulse, whole } = useTimeline(run);
  const [at, setAt] = useState(/^\d+$/.test(query.at || "") ? Number(query.at) : null);
  useEffect(() => { if (pulse) again(); }, [pulse]);
  const lookedAt = useRef(0);
  useEffect(() => { // somebody may have reopened it
    if (!changes || !run || !ENDED.has(run.status) || Date.now() - lookedAt.current < REOPENED_MS) return;
    lookedAt.current = Date.now();
    again();
  }, [changes]);
  if (problem && !run) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!run) return html`<${Loading} />`;
  return html`<${Shown} ...${{ run, items, live, whole, at, setAt, query, again }} />`;
}

/** Of the version that the run has, as the store keeps it; else of the code at hand. */
async function planOf(run, signal) {
  const path = `workflows/${encodeURIComponent(run.workflow)}`;
  const kept = await get(`${path}/versions/${encodeURIComponent(run.version)}`, null, signal).catch(() => null);
  return (kept || await get(path, null, signal).catch(() => null))?.plan || null;
}

function Shown({ run, items, live, whole, at, setAt, query, again }) {
  const last = items.length ? items[items.length - 1].seq : -1;
  const isPast = at !== null && at < last;
  const story = useMemo(() => storyOf(items, isPast ? at : null), [items, isPast ? at : null]);
  const status = isPast || whole ? story.status : run.status; // of the first piece alone no status follows
  const isOpen = !ENDED.has(status);
  const now = useNow(isOpen && !isPast);
  const end = (isPast ? ms(story.at) : isOpen ? null : ms(whole ? story.at : run.finished_at)) ?? now;
  const { opened, toggle, children, feeds } = useChildren(isPast ? story.at : null);
  const { data: plan } = useData((signal) => planOf(run, signal), [run.workflow, run.version]);
  const settle = (moment) => go("run", [run.id], { ...query, at: moment === null ? "" : moment }, { replace: true });
  const select = useCallback((key) => go("run", [run.id], { ...query, step: key }, { replace: true }), [run.id, query]);
  return html`<div class="run">
    <header class="run-head">
      <div class="titles"><p class="over"><a href=${href("workflow", [run.workflow])}>${run.workflow}</a> <span class="faint">version ${run.version}</span></p>
        <h2><${Copy} text=${run.id} most=${40} /> <${Status} of=${status} /></h2>
        <p class="why">${isPast ? `as it was at ${localTime(story.at)}` : (run.waits?.length && waitingWords(run)) || story.reason || waitingWords(run)}
          ${!live && html` <b class="bad">· no connection, trying again</b>`}</p></div>
      ${!isPast && html`<${RunActions} run=${run} story=${story} waits=${run.waits} plan=${plan} again=${again} />`}
    </header>
    <${Slider} items=${items} at=${at} setAt=${setAt} settle=${settle} last=${last} story=${story} />
    <div class="columns-run">
      <section class="pane plan-pane" aria-label="Plan"><${Plan} plan=${plan} story=${story} selected=${query.step} onSelect=${select} /></section>
      <section class="pane" aria-label="Waterfall"><${Waterfall} story=${story} now=${end} selected=${query.step} onSelect=${select} ...${{ children, opened, toggle }} />${feeds}</section>
      <aside class="pane details" aria-label="Details"><${Details} ...${{ run, story, query, items, isPast, children }} /></aside>
    </div></div>`;
}

/** Children whose steps are shown below their bar: loaded when they are opened, and followed as their parent is.
    `until`: the moment that is looked at, if it is a past one. */
function useChildren(until) {
  const [opened, setOpened] = useState(() => new Set());
  const [told, setTold] = useState(() => new Map());
  const toggle = useCallback((uid) => setOpened((old) => {
    const next = new Set(old);
    if (!next.delete(uid)) next.add(uid);
    return next;
  }), []);
  const tell = useCallback((uid, run, items) => setTold((old) => new Map(old).set(uid, { run, items })), []);
  const children = useMemo(() => new Map([...told].filter(([uid]) => opened.has(uid)).map(([uid, { run, items }]) => {
    const seen = until ? items.filter((item) => ms(item.at) <= ms(until)) : items;
    return [uid, { run, story: storyOf(seen) }];
  })), [told, opened, until]);
  const feeds = [...opened].map((uid) => html`<${Child} key=${uid} uid=${uid} tell=${tell} />`);
  return { opened, toggle, children, feeds };
}

/** Draws nothing but what went wrong: it reads a child's run, and tells of it. */
function Child({ uid, tell }) {
  const { data: run, problem, again } = useData((signal) => get(runPath({ id: "-" }), { uid }, signal), [uid]);
  const { items, pulse } = useTimeline(run);
  useEffect(() => { if (pulse) again(); }, [pulse]);
  useEffect(() => { if (run) tell(uid, run, items); }, [run, items]);
  return problem && !run ? html`<p class="bad pad" role="alert">The run of a child cannot be shown: ${problem.message}</p>` : null;
}

/** The id that all spans of the run have. */
const traceOf = (run) => (run.trace || "").split("-")[1] || "";

function Slider({ items, at, setAt, settle, last, story }) {
  const ref = useRef();
  if (last < 0) return null;
  const shown = at === null ? last : Math.min(at, last);
  const item = items[Math.min(shown, items.length - 1)];
  const change = (value) => setAt(value >= last ? null : value);
  const release = (value) => settle(value >= last ? null : value); // not while it is dragged: browsers bear few a second
  return html`<div class="slider"><input ref=${ref} type="range" min="0" max=${last} value=${shown} aria-label="Moment of the run"
      aria-valuetext=${item ? `${words(item.kind)} ${item.step || item.name || ""}, event ${shown} of ${last}` : ""}
      onInput=${(e) => change(Number(e.target.value))} onChange=${(e) => release(Number(e.target.value))} />
    <span class="num">${shown} / ${last}</span>
    <span class="moment">${item && html`<${Time} at=${item.at} /> ${words(item.kind)} ${item.step || item.name || ""}`}</span>
    <span class="faint num">${story.from && item ? `+${span(ms(item.at) - ms(story.from))}` : ""}</span>
    <button disabled=${at === null} onClick=${() => { setAt(null); settle(null); }}>Now</button></div>`;
}

function Details({ run, story, query, items, isPast, children }) {
  const found = findStep(query.step, run, story, children);
  const step = found && found.step;
  return html`<div class="tabs" role="tablist">
      <a role="tab" aria-selected=${!query.tab} href=${href("run", [run.id], { ...query, tab: "" })}>${step ? step.key : "Run"}</a>
      ${step && html`<a role="tab" href=${href("run", [run.id], { uid: query.uid })}>✕ whole run</a>`}
      <a role="tab" aria-selected=${query.tab === "timeline"} href=${href("run", [run.id], { ...query, tab: "timeline" })}>Timeline</a></div>
    ${query.tab === "timeline" ? html`<${TimelineList} items=${items} until=${story.at} />`
      : step ? html`<${StepDetails} ...${found} isPast=${isPast} />` : html`<${RunDetails} run=${run} story=${story} isPast=${isPast} />`}`;
}

const OtherRun = ({ uid }) => html`<a href=${href("run", ["-"], { uid })} title=${uid}>${middle(uid, 17)}</a> <${CopyMark} text=${uid} />`;

function RunDetails({ run, story, isPast }) {
  const state = isPast ? story.state : run.state || {};
  const { data: children } = useData((signal) => get("runs", { parent: run.uid, limit: 100 }, signal), [run.uid, story.steps.size]);
  return html`<dl>
      <dt>Started</dt><dd><${Time} at=${run.started_at} /></dd>
      <dt>Took</dt><dd><${Took} from=${run.started_at} to=${run.finished_at} /></dd>
      <dt>User</dt><dd>${run.user || html`<span class="faint">nobody</span>`}</dd>
      <dt>Queue</dt><dd>${run.queue}, priority ${run.priority}</dd>
      ${Object.entries(run.attributes || {}).map(([key, value]) => html`<dt key=${key}>${key}</dt><dd>${String(value)}</dd>`)}
      ${run.parent && html`<dt>Parent</dt><dd><${OtherRun} uid=${run.parent} /></dd>`}
      ${run.forked_from && html`<dt>Forked from</dt><dd><${OtherRun} uid=${run.forked_from} /></dd>`}
      ${run.continued_from && html`<dt>Continues</dt><dd><${OtherRun} uid=${run.continued_from} /></dd>`}
      ${run.continued_as && html`<dt>Goes on as</dt><dd><${OtherRun} uid=${run.continued_as} /></dd>`}
      <dt>uid</dt><dd><${Copy} text=${run.uid} /></dd>
      <dt>Trace</dt><dd><${Copy} text=${run.trace} /></dd></dl>
    <${Failure} error=${story.error || (isPast ? null : run.error)} />
    <${Box} title="Input" of=${run.input} />
    ${story.output !== undefined && story.status === "completed" && !run.continued_as && html`<${Box} title="Output" of=${story.output} />`}
    ${Object.keys(state).length > 0 && html`<${Box} title="State" of=${state} />`}
    ${children?.runs.length > 0 && html`<section class="box"><header><h4>Children</h4></header>
      ${children.runs.map((child) => html`<div class="line" key=${child.uid}><${Status} of=${child.status} small /> <${RunLink} run=${child} />
        <span class="faint">${child.workflow}</span></div>`)}</section>`}`;
}

function StepDetails({ run, step, story, isInChild, isPast }) {
  const [forking, setForking] = useState(false);
  const { data } = useData((signal) => get(runPath(run, "/history"), { uid: run.uid, key: step.key }, signal).catch(() => []), [run.uid, step.key, step.attempts.length, step.status]);
  const attempts = isPast ? knownOf(data || [], step.attempts) : data || [];
  return html`<p><${Status} of=${step.status} /> ${step.function && html`<code>${step.function}</code>`}
      ${step.compensates && html` undoes <code>${step.compensates}</code>`}</p>
    ${isInChild && html`<p>of the run <${RunLink} run=${run} /></p>`}
    ${step.child && html`<p><a href=${href("run", ["-"], { uid: step.child })}>Its own run</a></p>`}
    ${!step.compensates && html`<p><button onClick=${() => setForking(true)}>Fork from here</button></p>`}
    ${forking && html`<${Fork} run=${run} story=${story} before=${step.key} query=${{ uid: run.uid }} close=${() => setForking(false)} />`}
    ${step.progress !== undefined && step.progress !== null && html`<${Box} title="Progress" of=${step.progress} />`}
    <${Failure} error=${step.error} />
    <${Box} title="Arguments" of=${step.arguments} />
    ${step.result !== undefined && html`<${Box} title="Result" of=${step.result} />`}
    ${attempts.length > 0 && html`<dl><dt>Invocation id</dt><dd><${Copy} text=${attempts[0].invocation_id} most=${40} /></dd>
      <dt>Trace</dt><dd><${Copy} text=${traceOf(run)} most=${40} /></dd></dl>`}
    <${Warnings} of=${warningsOf(attempts)} />
    <h4>Attempts</h4>
    <table class="attempts"><thead><tr><th>#</th><th>Status</th><th>Began, on</th><th>Took</th></tr></thead>
      <tbody>${attempts.map((attempt) => html`<tr key=${attempt.attempt}>
        <td class="num">${attempt.attempt}</td><td><${Status} of=${attempt.status} small /></td><td><${Time} at=${attempt.began_at} /><br /><small class="faint"><${Copy} text=${attempt.worker} most=${15} /></small></td>
        <td><${Took} from=${attempt.began_at} to=${attempt.ended_at} /></td></tr>
        ${attempt.error && attempt.status !== step.status && html`<tr><td colspan="4" class="bad">${attempt.error.type}: ${attempt.error.message}</td></tr>`}`)}</tbody></table>
    ${step.until && html`<p>Next attempt <${Time} at=${step.until} /></p>`}`;
}

/** As the story knows them at its moment: an attempt that goes on then has no end, and no outcome. */
const knownOf = (attempts, told) => attempts.flatMap((one) => {
  const known = told.find((other) => other.number === one.attempt);
  if (!known) return [];
  return [known.to === null ? { ...one, ended_at: null, status: "started", result: null, error: null } : one];
});

/** What somebody should know who relies on the step having had its effect once. */
function warningsOf(attempts) {
  const said = [];
  for (const one of attempts) {
    const name = `Attempt ${one.attempt}`;
    if (one.status === "lost") said.push(`${name} was lost with its worker: whether it had its effect, nobody knows. Look for its invocation id where it should be.`);
    if (one.status === "cancelled" && one.result !== null) said.push(`${name} was given up, and succeeded in the world all the same.`);
    if (!one.is_current) said.push(`${name} was dropped by a retry of the run: it goes on as if it had not been.`);
  }
  return said;
}

function Warnings({ of }) {
  if (!of.length) return null;
  return html`<section class="box" role="note" aria-label="Warnings"><header><h4>Warnings</h4></header>
    ${of.map((text) => html`<p key=${text} class="bad">${text}</p>`)}</section>`;
}

function TimelineList({ items }) {
  const [most, setMost] = useState(200);
  const shown = items.slice(-most).reverse();
  if (!items.length) return html`<${Empty}>Nothing yet.</${Empty}>`;
  return html`<ol class="timeline" reversed>${shown.map((item) => html`<li key=${item.seq}>
      <span class="num faint">${item.seq}</span> <${Time} at=${item.at} /> <b>${words(item.kind)}</b> ${item.step || item.name || ""}
      ${item.attempt > 1 && html` <span class="faint">attempt ${item.attempt}</span>`}
      ${item.error && html`<span class="bad"> ${item.error.type}: ${item.error.message}</span>`}
      ${item.detail && html`<details><summary>detail</summary><pre>${item.detail}</pre></details>`}
      ${item.value !== null && item.value !== undefined && html`<details><summary>value</summary><${Value} of=${item.value} /></details>`}</li>`)}</ol>
    ${items.length > most && html`<button onClick=${() => setMost(most + 500)}>Earlier ones</button>`}`;
}
