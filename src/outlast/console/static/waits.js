// Open waits: what somebody has to answer.

import { html, useEffect, useState } from "./vendor/preact.js";
import { get } from "./api.js";
import { Answer } from "./actions.js";
import { middle } from "./format.js";
import { CopyMark, Empty, Loading, Time, Trouble, useData } from "./parts.js";
import { More } from "./runs.js";
import { href } from "./router.js";

export function Waits({ changes }) {
  const { data, problem, again } = useData((signal) => get("waits", { limit: 200 }, signal), [changes]);
  const [answering, setAnswering] = useState(null);
  const [more, setMore] = useState({ waits: [], after: undefined });
  useEffect(() => setMore({ waits: [], after: undefined }), [data]);
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  const waits = [...data.waits, ...more.waits];
  const next = more.after === undefined ? data.next : more.after;
  return html`<header class="view-head"><h2>Waits</h2></header>
    ${!waits.length ? html`<${Empty}>Nothing waits for anybody.</${Empty}>` : html`<table class="runs"><thead><tr><th>Kind</th><th>What</th><th>Run</th><th>Since</th><th>Until</th><th>Who may</th><th></th></tr></thead>
      <tbody>${waits.map((wait) => html`<tr key=${`${wait.run_uid}-${wait.key}`}><td>${wait.kind}</td><td>${wait.question || wait.name}</td>
        <td><a class="row-link" href=${href("run", [wait.run_id], { uid: wait.run_uid })} title=${wait.run_id}>${middle(wait.run_id, 26)}</a> <${CopyMark} text=${wait.run_id} /></td>
        <td><${Time} at=${wait.since} /></td><td>${wait.until ? html`<${Time} at=${wait.until} />` : "for ever"}</td>
        <td>${[wait.approvers, wait.scope && `scope ${wait.scope}`].filter(Boolean).join(", ")}</td>
        <td>${wait.kind !== "signal" && html`<button class="primary" onClick=${() => setAnswering(wait)}>Answer</button>`}</td></tr>`)}</tbody></table>`}
    ${next && html`<${More} key=${next} load=${() => get("waits", { limit: 200, after: next }).then((page) => setMore((old) => ({ waits: [...old.waits, ...page.waits], after: page.next })))} />`}
    ${answering && html`<${Answer} run=${{ id: answering.run_id, uid: answering.run_uid }} wait=${answering}
      close=${() => { setAnswering(null); again(); }} />`}`;
}
