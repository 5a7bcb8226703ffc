// Workflows with their plans, open waits, workers and queues.

import { html, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { Answer, StartRun } from "./actions.js";
import { isoMillis, localTime, ms, span } from "./format.js";
import { Box, Copy, Empty, Loading, Status, Time, Trouble, useData, useNow } from "./parts.js";
import { Plan } from "./plan.js";
import { href } from "./router.js";

export function Workflows() {
  const { data, problem, again } = useData((signal) => get("workflows", null, signal), []);
  const [starting, setStarting] = useState(null);
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<header class="view-head"><h2>Workflows</h2></header>
    ${!data.length && html`<${Empty}>This server knows no workflow. Start it with the module that has them.</${Empty}>`}
    <div class="cards">${data.map((one) => html`<article key=${one.name}>
      <h3><a href=${href("workflow", [one.name])}>${one.name}</a></h3><p>${one.doc || html`<span class="faint">No description.</span>`}</p>
      <p class="faint">version ${one.version}</p>
      <div class="actions"><button class="primary" onClick=${() => setStarting(one.name)}>Start</button><a class="button" href=${href("runs", [], { workflow: one.name })}>Runs</a></div></article>`)}</div>
    ${starting && html`<${StartRun} name=${starting} close=${() => setStarting(null)} />`}`;
}

export function WorkflowView({ name, changes }) {
  const { data, problem } = useData((signal) => get(`workflows/${encodeURIComponent(name)}`, null, signal), [name]);
  const { data: page } = useData((signal) => get("runs", { workflow: name, limit: 200 }, signal), [name, changes]);
  const [starting, setStarting] = useState(false);
  const runs = page?.runs || [];
  return html`<header class="view-head"><div><p class="over"><a href=${href("workflows")}>Workflows</a></p><h2>${name}</h2></div>
      <div class="actions"><button class="primary" onClick=${() => setStarting(true)}>Start</button><a class="button" href=${href("runs", [], { workflow: name })}>Runs</a></div></header>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${data && html`<p>${data.doc}</p><div class="columns-run two-panes">
      <section class="pane plan-pane"><${Plan} plan=${data.plan} /></section>
      <section class="pane"><h4>The last ${runs.length} runs</h4><${Figures} runs=${runs} />
        <h4>Versions</h4><${Versions} runs=${runs} current=${data.version} /><${Box} title="Input schema" of=${data.input_schema} /></section></div>`}
    ${starting && html`<${StartRun} name=${name} close=${() => setStarting(false)} />`}`;
}

function Figures({ runs }) {
  const ended = runs.filter((run) => run.finished_at && run.started_at);
  const took = ended.map((run) => ms(run.finished_at) - ms(run.started_at)).sort((a, b) => a - b);
  const at = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))];
  const good = ended.filter((run) => run.status === "completed").length;
  const line = ended.slice(0, 60).reverse().map((run) => ms(run.finished_at) - ms(run.started_at));
  const most = Math.max(1, ...line);
  return html`<dl><dt>Completed</dt><dd class="num">${ended.length ? `${Math.round((good / ended.length) * 100)} %` : "–"} of ${ended.length}</dd>
      <dt>Duration, half within</dt><dd>${took.length ? span(at(0.5)) : "–"}</dd><dt>95 % within</dt><dd>${took.length ? span(at(0.95)) : "–"}</dd></dl>
    ${line.length > 1 && html`<svg class="spark" viewBox="0 0 240 36" preserveAspectRatio="none" role="img" aria-label="Durations of the last runs">
      <polyline points=${line.map((value, i) => `${(i / (line.length - 1)) * 240},${34 - (value / most) * 32}`).join(" ")} /></svg>`}`;
}

function Versions({ runs, current }) {
  const counts = new Map([[current, 0]]);
  for (const run of runs) counts.set(run.version, (counts.get(run.version) || 0) + 1);
  return html`<ul>${[...counts].map(([version, count]) => html`<li key=${version}><code>${version}</code> ${version === current && "(here)"} <span class="num">${count} runs</span></li>`)}</ul>`;
}

export function Waits({ changes }) {
  const { data, problem, again } = useData((signal) => get("waits", { limit: 200 }, signal), [changes]);
  const [answering, setAnswering] = useState(null);
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  const { waits } = data;
  return html`<header class="view-head"><h2>Waits</h2></header>
    ${!waits.length ? html`<${Empty}>Nothing waits for anybody.</${Empty}>` : html`<table class="runs"><thead><tr><th>Kind</th><th>What</th><th>Run</th><th>Since</th><th>Until</th><th>Who may</th><th></th></tr></thead>
      <tbody>${waits.map((wait) => html`<tr key=${`${wait.run_uid}-${wait.key}`}><td>${wait.kind}</td><td>${wait.question || wait.name}</td>
        <td><a href=${href("run", [wait.run_id], { uid: wait.run_uid })}>${wait.run_id}</a></td>
        <td><${Time} at=${wait.since} /></td><td>${wait.until ? html`<${Time} at=${wait.until} />` : "for ever"}</td>
        <td>${[wait.approvers, wait.scope && `scope ${wait.scope}`].filter(Boolean).join(", ")}</td>
        <td>${wait.kind !== "signal" && html`<button class="primary" onClick=${() => setAnswering(wait)}>Answer</button>`}</td></tr>`)}</tbody></table>`}
    ${answering && html`<${Answer} run=${{ id: answering.run_id, uid: answering.run_uid }} wait=${answering}
      close=${() => { setAnswering(null); again(); }} />`}`;
}

export function Workers({ changes }) {
  const { data, problem, again } = useData((signal) => get("workers", null, signal), [changes]);
  const { data: queues } = useData((signal) => get("queues", null, signal).catch(() => []), [changes]);
  const now = useNow();
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<header class="view-head"><h2>Workers</h2></header>
    ${!data.length ? html`<${Empty}>No worker. Runs wait until one starts: <code>outlast worker MODULE</code></${Empty}>` : html`<table class="runs">
      <thead><tr><th>Worker</th><th>Where</th><th>Queues</th><th>Deploy</th><th>Python</th><th>Since</th><th>Lease</th></tr></thead>
      <tbody>${data.map((one) => html`<tr key=${one.id}><td><${Copy} text=${one.id} most=${14} /></td><td>${one.host}:${one.pid}</td><td>${one.queues.join(", ")}</td>
        <td><code>${one.deploy}</code></td><td>${one.python}</td><td title=${one.started_at}>${localTime(one.started_at)}</td>
        <td>${one.is_alive ? html`<${Status} of="running" small /> ${span(ms(one.expires_at) - now)} left` : html`<${Status} of="failed" small /> gone`}</td></tr>`)}</tbody></table>`}
    <header class="view-head"><h2>Queues</h2></header>
    ${!(queues || []).length ? html`<${Empty}>No queue is in use.</${Empty}>` : html`<table class="runs"><thead><tr><th>Queue</th><th>Runs waiting</th><th>Runs held</th><th>Steps waiting</th><th>Steps running</th><th>Lag</th><th>Workers</th></tr></thead>
      <tbody>${queues.map((one) => html`<tr key=${one.name}><td>${one.name}</td><td class="num">${one.waiting_runs}</td><td class="num">${one.held_runs}</td>
        <td class="num">${one.waiting_steps}</td><td class="num">${one.held_steps}</td><td class="num">${span(isoMillis(one.lag))}</td><td class="num">${one.workers}</td></tr>
        ${one.unknown.length > 0 && html`<tr><td colspan="7" class="bad">No live worker of it knows ${one.unknown.join(", ")}.</td></tr>`}`)}</tbody></table>`}`;
}


