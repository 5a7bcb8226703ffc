// Open waits, workers and queues.

import { html, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { Answer } from "./actions.js";
import { isoMillis, localTime, ms, span } from "./format.js";
import { Copy, Empty, Loading, Status, Time, Trouble, useData, useNow } from "./parts.js";
import { href } from "./router.js";

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
