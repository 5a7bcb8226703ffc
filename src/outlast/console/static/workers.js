// Workers and queues: who works, what each holds, when it was last heard of; and asking one to leave.

import { html, useEffect, useState } from "./vendor/preact.js";
import { get, post } from "./api.js";
import { isoMillis, ms, span, words } from "./format.js";
import { act, Copy, Dialog, Empty, Loading, RunLink, Status, Time, Trouble, useData, useNow } from "./parts.js";
import { href } from "./router.js";

const MOST_COUNTED = 1000;
const count = (number) => (number >= MOST_COUNTED ? `${number}+` : String(number));
const many = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
const pathOf = (worker, tail) => `workers/${encodeURIComponent(worker.id)}/${tail}`;

export function Workers({ changes }) {
  const { data, problem, again } = useData((signal) => get("workers", null, signal), [changes]);
  const [opened, setOpened] = useState(null);
  const [leaving, setLeaving] = useState(null);
  useEffect(() => { // a heartbeat is no change: asked again when a lease that is shown would have run out
    const ends = (data || []).filter((one) => one.is_alive).map((one) => ms(one.expires_at));
    if (!ends.length) return undefined;
    const timer = setTimeout(again, Math.max(1000, Math.min(...ends) - Date.now()));
    return () => clearTimeout(timer);
  }, [data]);
  const now = useNow();
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<header class="view-head"><h2>Workers</h2></header>
    ${!data.length ? html`<${Empty}>No worker. Runs wait until one starts: <code>outlast worker MODULE</code></${Empty}>` : html`<table class="runs fleet">
      <thead><tr><th>State</th><th>Worker</th><th>Where</th><th>Queues</th><th>Holds</th><th>Version</th><th>Heard of</th><th><span class="hidden">Act</span></th></tr></thead>
      <tbody>${data.map((one) => html`<tr key=${one.id}>
          <td><${Status} of=${one.state} />${one.state === "draining" && html`<br /><small class="faint">since <${Time} at=${one.drain_asked_at} /></small>`}</td>
          <td><${Copy} text=${one.id} most=${17} /><br /><small class="faint">started <${Time} at=${one.started_at} /></small></td>
          <td>${one.host}:${one.pid}</td><td>${one.queues.join(", ")}</td>
          <td><button class="link" aria-expanded=${opened === one.id} onClick=${() => setOpened(opened === one.id ? null : one.id)}>
            ${many(one.held_runs, "run")}, ${many(one.held_steps, "queued step")}</button></td>
          <td>${one.release ? `outlast ${one.release}` : "older release"}<br /><small class="faint">Python ${one.python}, code <${Copy} text=${one.deploy} most=${9} /></small></td>
          <td><${Beat} worker=${one} now=${now} /></td>
          <td>${one.state === "serving" && html`<button class="danger" onClick=${() => setLeaving(one)}>Drain</button>`}</td></tr>
        ${opened === one.id && html`<tr key=${`${one.id} holds`} class="holds"><td colspan="8"><${Holdings} worker=${one} changes=${changes} /></td></tr>`}`)}</tbody></table>`}
    ${leaving && html`<${Drain} worker=${leaving} close=${() => { setLeaving(null); again(); }} />`}`;
}

/** Its last sign of life, and how long its lease lasts without another. */
function Beat({ worker, now }) {
  const left = ms(worker.expires_at) - now;
  return html`${worker.renewed_at ? html`<${Time} at=${worker.renewed_at} />` : html`<span class="faint">–</span>`}
    <br /><small class=${worker.is_alive ? "faint" : "bad"}>${worker.is_alive ? `lease ends in ${span(left)}` : `gone for ${span(-left)}`}</small>`;
}

function Holdings({ worker, changes }) {
  const { data: page, problem } = useData((signal) => get("runs", { worker: worker.id, limit: 20 }, signal), [worker.id, changes]);
  const { data: steps } = useData((signal) => get(pathOf(worker, "steps"), { limit: 100 }, signal).catch(() => []), [worker.id, changes]);
  if (problem && !page) return html`<p class="bad" role="alert">${problem.message}</p>`;
  if (!page) return html`<${Loading} />`;
  return html`<div class="two"><section aria-label="Runs it holds"><h4>Runs</h4>
      ${!page.runs.length && html`<p class="faint">It holds none.</p>`}
      ${page.runs.map((run) => html`<div class="line" key=${run.uid}><${Status} of=${run.status} small /> <${RunLink} run=${run} /> <span class="faint">${run.workflow}</span></div>`)}
      ${page.next && html`<p><a href=${href("runs", [], { worker: worker.id })}>All of them</a></p>`}</section>
    <section aria-label="Queued steps it carries out"><h4>Queued steps</h4>
      ${!(steps || []).length && html`<p class="faint">It carries out none.</p>`}
      ${(steps || []).map((step) => html`<div class="line" key=${`${step.run_uid} ${step.key}`}><a href=${href("run", [step.run_id], { uid: step.run_uid, step: step.key })}>${step.key}</a>
        <span class="faint">of ${step.run_id}, attempt ${step.attempt}, since <${Time} at=${step.taken_at} /></span></div>`)}</section></div>`;
}

function Drain({ worker, close }) {
  const send = (event) => {
    event.preventDefault();
    act(() => post(pathOf(worker, "drain")), "It was asked to drain, and hears of it with its next heartbeat.").then((done) => done && close());
  };
  return html`<${Dialog} title="Drain this worker?" onClose=${close}><form onSubmit=${send}>
    <p><code>${worker.id}</code> on ${worker.host}, process ${worker.pid}.</p>
    <p>It claims no more. Steps that it executes get its grace (30 s, if nothing else was said), then they are stopped and begin again elsewhere.
      What else it holds is handed back at once: now ${many(worker.held_runs, "run")} and ${many(worker.held_steps, "queued step")}. Then its process ends.</p>
    <footer><button type="button" onClick=${close}>Back</button><button class="danger">Drain it</button></footer></form></${Dialog}>`;
}

export function Queues({ changes }) {
  const { data, problem, again } = useData((signal) => get("queues", null, signal), [changes]);
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<header class="view-head"><h2>Queues</h2></header>
    ${!data.length ? html`<${Empty}>Nothing waits, and no worker serves any queue.</${Empty}>` : html`<table class="runs"><thead><tr><th>Queue</th><th>Runs waiting</th><th>Runs held</th>
        <th>Steps waiting</th><th>Steps running</th><th>Limit of steps</th><th>Lag</th><th>Workers</th></tr></thead>
      <tbody>${data.map((one) => html`<tr key=${one.name}><td>${one.name}</td>${["waiting_runs", "held_runs", "waiting_steps", "held_steps"].map((name) => html`<td key=${name} class="num" data-name=${words(name)}>${one[name]}</td>`)}
        <td class="num" data-name="limit">${one.limit ?? html`<span class="faint">none</span>`}</td>
        <td class=${`num ${isoMillis(one.lag) > 60_000 ? "warn" : ""}`} data-name="lag">${span(isoMillis(one.lag))}</td><td class=${`num ${one.workers ? "" : "bad"}`} data-name="workers">${one.workers}</td></tr>
        ${one.unknown.length > 0 && html`<tr key=${`${one.name} lacks`}><td colspan="8" class="bad">No live worker of it knows ${one.unknown.join(", ")}.</td></tr>`}`)}</tbody></table>`}`;
}
