// One run: its plan and its waterfall side by side, a slider through its past, and the details of what is selected.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { follow, get, runPath } from "./api.js";
import { RunActions } from "./actions.js";
import { ENDED, localTime, span, ms, waitingWords, words } from "./format.js";
import { Box, Copy, Empty, Failure, Loading, RunLink, Status, Time, Took, Trouble, Value, useData, useNow } from "./parts.js";
import { Plan } from "./plan.js";
import { go, href } from "./router.js";
import { storyOf } from "./story.js";
import { Waterfall } from "./waterfall.js";

/** The timeline as it grows, in portions: a long one comes in bursts, and is drawn once for each. */
function useTimeline(run) {
  const [items, setItems] = useState([]);
  const [live, setLive] = useState(true);
  const [ended, setEnded] = useState(0);
  useEffect(() => {
    if (!run) return undefined;
    let waiting = [];
    let timer = null;
    const flush = () => { timer = null; const portion = waiting; waiting = []; setItems((all) => all.concat(portion)); };
    setItems([]);
    const stop = follow(runPath(run, "/events"), { uid: run.uid, after: -1 }, {
      onMessage: (item) => { waiting.push(item); timer = timer || setTimeout(flush, 60); },
      onState: setLive,
      onEnd: () => { setLive(true); setEnded((n) => n + 1); },
    });
    return () => { stop(); clearTimeout(timer); };
  }, [run?.uid, run?.reopened]);
  return { items, live, ended };
}

export function RunView({ id, query }) {
  const { data: run, problem, again } = useData((signal) => get(runPath({ id }), { uid: query.uid }, signal), [id, query.uid]);
  const { items, live, ended } = useTimeline(run);
  const [at, setAt] = useState(null);
  useEffect(() => { if (items.length) again(); }, [ended, Math.floor(items.length / 50), items[items.length - 1]?.kind]);
  if (problem && !run) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!run) return html`<${Loading} />`;
  return html`<${Shown} ...${{ run, items, live, at, setAt, query, again }} />`;
}

function Shown({ run, items, live, at, setAt, query }) {
  const last = items.length ? items[items.length - 1].seq : -1;
  const isPast = at !== null && at < last;
  const story = useMemo(() => storyOf(items, isPast ? at : null), [items, isPast ? at : null]);
  const isOpen = !ENDED.has(story.status);
  const now = useNow(isOpen && !isPast);
  const end = isPast || !isOpen ? ms(story.at) ?? now : now;
  const { data: workflow } = useData((signal) => get(`workflows/${encodeURIComponent(run.workflow)}`, null, signal).catch(() => null), [run.workflow]);
  const { data: waits } = useData((signal) => get("waits", { workflow: run.workflow, limit: 500 }, signal).then((page) => page.waits, () => []), [run.uid, items.length]);
  const mine = (waits || []).filter((wait) => wait.run_uid === run.uid);
  const select = useCallback((key) => go("run", [run.id], { ...query, step: key }, { replace: true }), [run.id, query]);
  const status = isPast || items.length ? story.status : run.status;
  return html`<div class="run">
    <header class="run-head">
      <div class="titles"><p class="over"><a href=${href("workflow", [run.workflow])}>${run.workflow}</a> <span class="faint">version ${run.version}</span></p>
        <h2><${Copy} text=${run.id} most=${40} /> <${Status} of=${status} /></h2>
        <p class="why">${isPast ? `as it was at ${localTime(story.at)}` : story.reason || waitingWords(run)}
          ${!live && html` <b class="bad">· no connection, trying again</b>`}</p></div>
      ${!isPast && html`<${RunActions} run=${run} story=${story} waits=${mine} />`}
    </header>
    <${Slider} items=${items} at=${at} setAt=${setAt} last=${last} story=${story} />
    <div class="columns-run">
      <section class="pane plan-pane" aria-label="Plan"><${Plan} plan=${workflow?.plan} story=${story} selected=${query.step} onSelect=${select} /></section>
      <section class="pane" aria-label="Waterfall"><${Waterfall} story=${story} now=${end} selected=${query.step} onSelect=${select} /></section>
      <aside class="pane details" aria-label="Details"><${Details} ...${{ run, story, query, items, isPast }} /></aside>
    </div></div>`;
}

function Slider({ items, at, setAt, last, story }) {
  const ref = useRef();
  if (last < 0) return null;
  const shown = at === null ? last : Math.min(at, last);
  const item = items[Math.min(shown, items.length - 1)];
  const change = (value) => setAt(value >= last ? null : value);
  return html`<div class="slider"><input ref=${ref} type="range" min="0" max=${last} value=${shown} aria-label="Moment of the run"
      aria-valuetext=${item ? `${words(item.kind)} ${item.step || item.name || ""}, event ${shown} of ${last}` : ""}
      onInput=${(e) => change(Number(e.target.value))} />
    <span class="num">${shown} / ${last}</span>
    <span class="moment">${item && html`<${Time} at=${item.at} /> ${words(item.kind)} ${item.step || item.name || ""}`}</span>
    <span class="faint num">${story.from && item ? `+${span(ms(item.at) - ms(story.from))}` : ""}</span>
    <button disabled=${at === null} onClick=${() => setAt(null)}>Now</button></div>`;
}

function Details({ run, story, query, items, isPast }) {
  const step = query.step ? story.steps.get(query.step) : null;
  return html`<div class="tabs" role="tablist">
      <a role="tab" aria-selected=${!query.tab} href=${href("run", [run.id], { ...query, tab: "" })}>${step ? step.key : "Run"}</a>
      ${step && html`<a role="tab" href=${href("run", [run.id], { uid: query.uid })}>✕ whole run</a>`}
      <a role="tab" aria-selected=${query.tab === "timeline"} href=${href("run", [run.id], { ...query, tab: "timeline" })}>Timeline</a></div>
    ${query.tab === "timeline" ? html`<${TimelineList} items=${items} until=${story.at} />`
      : step ? html`<${StepDetails} run=${run} step=${step} />` : html`<${RunDetails} run=${run} story=${story} isPast=${isPast} />`}`;
}

function RunDetails({ run, story, isPast }) {
  const { data: children } = useData((signal) => get("runs", { parent: run.uid, limit: 100 }, signal), [run.uid, story.steps.size]);
  return html`<dl>
      <dt>Started</dt><dd><${Time} at=${run.started_at} /></dd>
      <dt>Took</dt><dd><${Took} from=${run.started_at} to=${run.finished_at} /></dd>
      <dt>User</dt><dd>${run.user || html`<span class="faint">nobody</span>`}</dd>
      <dt>Queue</dt><dd>${run.queue}, priority ${run.priority}</dd>
      ${Object.entries(run.attributes || {}).map(([key, value]) => html`<dt key=${key}>${key}</dt><dd>${String(value)}</dd>`)}
      ${run.parent && html`<dt>Parent</dt><dd><a href=${href("run", ["-"], { uid: run.parent })}>${run.parent.slice(0, 8)}…</a></dd>`}
      ${run.forked_from && html`<dt>Forked from</dt><dd><a href=${href("run", ["-"], { uid: run.forked_from })}>${run.forked_from.slice(0, 8)}…</a></dd>`}
      <dt>uid</dt><dd><${Copy} text=${run.uid} /></dd>
      <dt>Trace</dt><dd><${Copy} text=${run.trace} /></dd></dl>
    <${Failure} error=${story.error || (isPast ? null : run.error)} />
    <${Box} title="Input" of=${run.input} />
    ${story.output !== undefined && story.status === "completed" && html`<${Box} title="Output" of=${story.output} />`}
    ${Object.keys(run.state || {}).length > 0 && html`<${Box} title="State" of=${run.state} />`}
    ${children?.runs.length > 0 && html`<section class="box"><header><h4>Children</h4></header>
      ${children.runs.map((child) => html`<div class="line" key=${child.uid}><${Status} of=${child.status} small /> <${RunLink} run=${child} />
        <span class="faint">${child.workflow}</span></div>`)}</section>`}`;
}

function StepDetails({ run, step }) {
  const { data } = useData((signal) => get(runPath(run, "/history"), { uid: run.uid, limit: 1000 }, signal).catch(() => []), [run.uid, step.key, step.attempts.length, step.status]);
  const attempts = (data || []).filter((attempt) => attempt.key === step.key);
  return html`<p><${Status} of=${step.status} /> ${step.function && html`<code>${step.function}</code>`}
      ${step.compensates && html` undoes <code>${step.compensates}</code>`}</p>
    ${step.progress !== undefined && step.progress !== null && html`<${Box} title="Progress" of=${step.progress} />`}
    <${Failure} error=${step.error} />
    <${Box} title="Arguments" of=${step.arguments} />
    ${step.result !== undefined && html`<${Box} title="Result" of=${step.result} />`}
    <h4>Attempts</h4>
    <table class="attempts"><thead><tr><th>#</th><th>Status</th><th>Began</th><th>Took</th><th>Worker</th></tr></thead>
      <tbody>${(attempts.length ? attempts : []).map((attempt) => html`<tr key=${attempt.attempt}>
        <td class="num">${attempt.attempt}</td><td><${Status} of=${attempt.status} small /></td><td><${Time} at=${attempt.began_at} /></td>
        <td><${Took} from=${attempt.began_at} to=${attempt.ended_at} /></td><td title=${attempt.worker}>${attempt.worker.slice(0, 8)}</td></tr>
        ${attempt.error && attempt.status !== step.status && html`<tr><td colspan="5" class="bad">${attempt.error.type}: ${attempt.error.message}</td></tr>`}`)}</tbody></table>
    ${step.until && html`<p>Next attempt <${Time} at=${step.until} /></p>`}`;
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
