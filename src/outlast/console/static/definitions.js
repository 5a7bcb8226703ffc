// Workflows: their plans, versions and figures; graphs that are stored as drafts, and what becomes of them.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, post } from "./api.js";
import { StartRun } from "./actions.js";
import { JsonField } from "./forms.js";
import { ms, span } from "./format.js";
import { act, Box, Dialog, Empty, Loading, Status, Time, Trouble, useData } from "./parts.js";
import { Plan } from "./plan.js";
import { go, href } from "./router.js";

const ADMIN = "admin";
const AUTHOR = "author";
const EXAMPLE = { name: "greeting", nodes: { greet: { function: "greet", input: "$input" } }, output: "$nodes.greet" };
const may = (session, ...scopes) => (session?.scopes || []).some((scope) => scopes.includes(scope));
const useSession = () => useData((signal) => get("session", null, signal), []).data;
const pathOf = (name, version) => `workflows/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`;

export function Workflows({ changes }) {
  const { data, problem, again } = useData((signal) => get("workflows", null, signal), [changes]);
  const { data: drafts } = useData((signal) => get("versions", { status: "draft" }, signal).catch(() => []), [changes]);
  const session = useSession();
  const [starting, setStarting] = useState(null);
  const [drafting, setDrafting] = useState(false);
  if (problem && !data) return html`<${Trouble} problem=${problem} retry=${again} />`;
  if (!data) return html`<${Loading} />`;
  return html`<header class="view-head"><h2>Workflows</h2>
      ${may(session, ADMIN, AUTHOR) && html`<button onClick=${() => setDrafting(true)}>New draft</button>`}</header>
    ${drafts?.length > 0 && html`<section class="box" aria-label="Drafts"><header><h4>To be decided</h4></header>
      ${drafts.map((one) => html`<div class="line" key=${`${one.workflow} ${one.version}`}>
        <${Status} of="draft" small /> <a href=${href("workflow", [one.workflow], { version: one.version })}>${one.workflow}</a>
        <code>${one.version}</code> <span class="faint">stored by ${one.created_by || "a worker"}, <${Time} at=${one.created_at} /></span></div>`)}</section>`}
    ${!data.length && html`<${Empty}>This server knows no workflow. Start it with the module that has them.</${Empty}>`}
    <div class="cards">${data.map((one) => html`<article key=${one.name}>
      <h3><a class="row-link" href=${href("workflow", [one.name])}>${one.name}</a></h3><p>${one.doc || html`<span class="faint">No description.</span>`}</p>
      <p class="faint">version ${one.version}</p><${Recent} name=${one.name} changes=${changes} />
      <div class="actions"><button class="primary" onClick=${() => setStarting(one.name)}>Start</button><a class="button" href=${href("runs", [], { workflow: one.name })}>Runs</a></div></article>`)}</div>
    ${starting && html`<${StartRun} name=${starting} close=${() => setStarting(null)} />`}
    ${drafting && html`<${NewDraft} session=${session} close=${() => setDrafting(false)} />`}`;
}

export function WorkflowView({ name, query, changes }) {
  const { data: known, problem } = useData((signal) => get(`workflows/${encodeURIComponent(name)}`, null, signal), [name, changes]);
  const { data: versions, again } = useData((signal) => get(`workflows/${encodeURIComponent(name)}/versions`, null, signal), [name, changes]);
  const { data: page } = useData((signal) => get("runs", { workflow: name, limit: 200 }, signal), [name, changes]);
  const wanted = query.version || (problem && versions?.[0]?.version);
  const { data: shown } = useData((signal) => (wanted ? get(pathOf(name, wanted), null, signal) : Promise.resolve(null)), [name, wanted, versions]);
  const session = useSession();
  const [starting, setStarting] = useState(false);
  const [deciding, setDeciding] = useState(null);
  const runs = page?.runs || [];
  if (problem && versions && !versions.length) return html`<${Trouble} problem=${problem} />`;
  if (!known && !problem) return html`<${Loading} />`;
  const current = wanted ? shown : known;
  return html`<header class="view-head"><div><p class="over"><a href=${href("workflows")}>Workflows</a></p><h2>${name}</h2></div>
      <div class="actions">${known && html`<button class="primary" onClick=${() => setStarting(true)}>Start</button>`}<a class="button" href=${href("runs", [], { workflow: name })}>Runs</a></div></header>
    ${wanted && shown && html`<p>Version <code>${wanted}</code> is <${Status} of=${shown.status} />${decidedBy(shown)}${known && html` · <a href=${href("workflow", [name])}>the one in force</a>`}</p>`}
    ${known && !wanted && html`<p>${known.doc}</p>`}
    <div class="columns-run two-panes">
      <section class="pane plan-pane" aria-label="Plan"><${Plan} plan=${current?.plan} /></section>
      <section class="pane"><h4>The last ${runs.length} runs</h4><${Figures} runs=${runs} />
        <h4>Versions</h4><${Versions} ...${{ name, versions: versions || [], runs, current: known?.version, shown: wanted, mayDecide: may(session, ADMIN), decide: setDeciding }} />
        ${shown?.definition && html`<${Box} title="Definition" of=${shown.definition} />`}
        ${known && !wanted && html`<${Box} title="Input schema" of=${known.input_schema} />`}</section></div>
    ${starting && html`<${StartRun} name=${name} close=${() => setStarting(false)} />`}
    ${deciding && html`<${Decide} name=${name} ...${deciding} session=${session} close=${() => { setDeciding(null); again(); }} />`}`;
}

const decidedBy = (one) => one.decided_by && html` <span class="faint">since <${Time} at=${one.decided_at} />, by ${one.decided_by}</span>`;

function Versions({ name, versions, runs, current, shown, mayDecide, decide }) {
  const counts = new Map();
  for (const run of runs) counts.set(run.version, (counts.get(run.version) || 0) + 1);
  if (!versions.length) return html`<p class="faint">None is stored yet: a worker brings them along, or a first run.</p>`;
  return html`<table class="versions"><thead><tr><th>Version</th><th>Status</th><th>Stored</th><th>Runs</th><th><span class="hidden">Decide</span></th></tr></thead>
    <tbody>${versions.map((one) => html`<tr key=${one.version} class=${one.version === shown ? "selected" : null}>
      <td><a href=${href("workflow", [name], { version: one.version })}><code>${one.version}</code></a>${one.version === current && " (here)"}</td>
      <td><${Status} of=${one.status} small />${decidedBy(one)}</td>
      <td><${Time} at=${one.created_at} />${one.created_by && html` <span class="faint">by ${one.created_by}</span>`}</td>
      <td class="num">${counts.get(one.version) || 0}</td>
      <td class="actions">${mayDecide && one.status !== "active" && html`<button onClick=${() => decide({ version: one.version, how: "activate" })}>Activate</button>`}
        ${mayDecide && one.status !== "declined" && html`<button class="danger" onClick=${() => decide({ version: one.version, how: "decline" })}>Decline</button>`}</td></tr>`)}</tbody></table>`;
}

const Who = ({ session, who, setWho }) => (session?.user ? null : html`<div class="field"><label for="by">Who you are: this server does not know you</label>
  <input id="by" required value=${who} onInput=${(e) => setWho(e.target.value)} /></div>`);

function Decide({ name, version, how, session, close }) {
  const [who, setWho] = useState("");
  const send = (event) => {
    event.preventDefault();
    const done = how === "activate" ? `Runs of ${version} can be started.` : `No new run of ${version} is started.`;
    act(() => post(`${pathOf(name, version)}/${how}`, session?.user ? {} : { by: who }), done).then((good) => good && close());
  };
  return html`<${Dialog} title=${`${how === "activate" ? "Activate" : "Decline"} ${name} ${version}?`} onClose=${close}><form onSubmit=${send}>
    <p>${how === "activate" ? "Runs of this version can be started from now on; of a graph that no code declares, new runs are of the version activated last."
      : "No run of this version is started any more. Those in flight go on with it."} Your name and the time stand with it.</p>
    <${Who} ...${{ session, who, setWho }} />
    <footer><button type="button" onClick=${close}>Back</button><button class=${how === "activate" ? "primary" : "danger"}>${how === "activate" ? "Activate it" : "Decline it"}</button></footer></form></${Dialog}>`;
}

function NewDraft({ session, close }) {
  const [definition, setDefinition] = useState(EXAMPLE);
  const [who, setWho] = useState("");
  const send = async (event) => {
    event.preventDefault();
    let made = null;
    const body = { definition, ...(session?.user ? {} : { by: who }) };
    if (await act(async () => { made = await post("versions", body); }, "It is stored as a draft.")) {
      close();
      go("workflow", [made.workflow], { version: made.version });
    }
  };
  return html`<${Dialog} title="Store a graph as a draft" onClose=${close}><form onSubmit=${send}>
    <p>Nobody starts it before it is activated.</p>
    <${JsonField} id="definition" rows=${14} value=${definition} onChange=${setDefinition} label=${html`<label for="definition">Its definition, as JSON</label>`} />
    <${Who} ...${{ session, who, setWho }} />
    <footer><button type="button" onClick=${close}>Back</button><button class="primary" disabled=${definition === undefined}>Store it</button></footer></form></${Dialog}>`;
}

const tookOf = (run) => ms(run.finished_at) - ms(run.started_at);

/** Of those that have ended: the share that completed, and how long they took. */
function figuresOf(runs) {
  const ended = runs.filter((run) => run.finished_at && run.started_at);
  const took = ended.map(tookOf).sort((a, b) => a - b);
  const at = (share) => (took.length ? span(took[Math.min(took.length - 1, Math.floor(took.length * share))]) : "–");
  const good = ended.filter((run) => run.status === "completed").length;
  return { ended, share: ended.length ? `${Math.round((good / ended.length) * 100)} %` : "–", half: at(0.5), most: at(0.95) };
}

function Figures({ runs }) {
  const { ended, share, half, most } = figuresOf(runs);
  return html`<dl><dt>Completed</dt><dd class="num">${share} of ${ended.length}</dd>
      <dt>Duration, half within</dt><dd>${half}</dd><dt>95 % within</dt><dd>${most}</dd></dl>
    <${Spark} runs=${ended} />`;
}

/** How long the last runs took, the oldest first; a mark below for each that did not complete. */
function Spark({ runs }) {
  const last = runs.slice(0, 60).reverse();
  const line = last.map(tookOf);
  const most = Math.max(1, ...line);
  const x = (i) => (i / (line.length - 1)) * 240;
  if (line.length < 2) return null;
  return html`<svg class="spark" viewBox="0 0 240 40" preserveAspectRatio="none" role="img" aria-label=${`Durations of the last ${line.length} runs, up to ${span(most)}`}>
    <polyline points=${line.map((value, i) => `${x(i)},${34 - (value / most) * 32}`).join(" ")} />
    ${last.map((run, i) => run.status !== "completed" && html`<path key=${run.uid} class="fell" d=${`M${x(i)},36 v4`} />`)}</svg>`;
}

const RECENT = 60;
const RECENT_MS = 10_000;

/** The same in a line, for a card: read when the card is in sight, and again at most every ten seconds. */
function Recent({ name, changes }) {
  const ref = useRef();
  const [isNear, setNear] = useState(false);
  const readAt = useRef(0);
  const [runs, setRuns] = useState(null);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => setNear(entry.isIntersecting));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (!isNear) return undefined;
    const read = () => { readAt.current = Date.now(); get("runs", { workflow: name, limit: RECENT }).then((page) => setRuns(page.runs), () => {}); };
    const timer = setTimeout(read, Math.max(0, readAt.current + RECENT_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [isNear, name, changes]);
  const { ended, share, half, most } = figuresOf(runs || []);
  return html`<div class="recent" ref=${ref}>${ended.length > 0 && html`<p class="num">${share} of ${ended.length} completed <span class="faint">· half within ${half}, 95 % within ${most}</span></p>
    <${Spark} runs=${ended} />`}</div>`;
}
