// What can be done with a run. What destroys asks first; every action says what came of it.

import { html, useState } from "./vendor/preact.js";
import { ask, get, post, runPath } from "./api.js";
import { ENDED, localTime, middle } from "./format.js";
import { initial, JsonField, SchemaForm } from "./forms.js";
import { act, Dialog, tell, Time, Trouble, useData } from "./parts.js";
import { undosOf } from "./plan.js";
import { go } from "./router.js";

export function RunActions({ run, story, waits, plan, again }) {
  const [open, setOpen] = useState(null);
  const ended = ENDED.has(run.status);
  const query = { uid: run.uid };
  const close = () => setOpen(null);
  const gates = (waits || []).filter((wait) => wait.kind === "gate" || wait.kind === "approval");
  return html`<div class="actions">
    ${gates.map((wait) => html`<button class="primary" key=${wait.key} onClick=${() => setOpen({ kind: "answer", wait })}>
      ${wait.kind === "approval" ? `Answer “${wait.name}”` : `Open “${wait.name}”`}</button>`)}
    ${run.status === "suspended" && !gates.length && html`<button class="primary"
      onClick=${() => act(() => post(runPath(run, "/resume"), {}, query), "It goes on.")}>Resume</button>`}
    ${run.status === "failed" && html`<button class="primary"
      onClick=${() => setOpen({ kind: "retry" })}>Retry</button>`}
    ${!ended && html`<button onClick=${() => setOpen({ kind: "signal" })}>Signal</button>`}
    <button onClick=${() => setOpen({ kind: "fork" })}>Fork</button>
    ${!ended && html`<button class="danger" onClick=${() => setOpen({ kind: "cancel" })}>Cancel</button>`}
    ${ended && html`<button class="danger" onClick=${() => setOpen({ kind: "delete" })}>Delete</button>`}
    ${open?.kind === "cancel" && html`<${Cancel} ...${{ run, story, plan, close, query }} />`}
    ${open?.kind === "retry" && html`<${Retry} ...${{ run, story, close, query, again }} />`}
    ${open?.kind === "delete" && html`<${Delete} ...${{ run, close, query }} />`}
    ${open?.kind === "signal" && html`<${Signal} ...${{ run, close, query, waits }} />`}
    ${open?.kind === "fork" && html`<${Fork} ...${{ run, story, close, query }} />`}
    ${open?.kind === "answer" && html`<${Answer} ...${{ run, close, wait: open.wait }} />`}</div>`;
}

const Buttons = ({ close, children }) => html`<footer><button type="button" onClick=${close}>Back</button>${children}</footer>`;

const stepsOf = (story) => [...(story?.steps.values() || [])];

/** Keys of steps: the first of them, and how many more there are. */
const Keys = ({ steps, most = 30 }) => html`<ol class="keys-of">${steps.slice(0, most).map((step) => html`<li key=${step.key}><code>${step.key}</code></li>`)}
  ${steps.length > most && html`<li class="faint">and ${steps.length - most} more</li>`}</ol>`;

function Retry({ run, story, close, query, again: look }) {
  const steps = stepsOf(story).filter((step) => !step.compensates);
  const kept = steps.filter((step) => step.status === "succeeded");
  const again = steps.filter((step) => step.status !== "succeeded");
  const send = (event) => {
    event.preventDefault();
    act(() => post(runPath(run, "/retry"), {}, query), "It goes on from what failed.").then((done) => { if (done) { close(); look(); } });
  };
  return html`<${Dialog} title=${`Retry ${run.id}?`} onClose=${close}><form onSubmit=${send}>
    <p>This run goes on from what failed, with a fresh budget of attempts. What succeeded stays, and is not done again.</p>
    <div class="two"><div><h4>Kept (${kept.length})</h4><${Keys} steps=${kept} /></div>
      <div><h4>Runs again (${again.length})</h4><${Keys} steps=${again} />${!again.length && html`<p class="faint">The body alone: no step had failed.</p>`}</div></div>
    <${Buttons} close=${close}><button class="primary" autofocus>Retry</button></${Buttons}></form></${Dialog}>`;
}

function Cancel({ run, story, plan, close, query }) {
  const [reason, setReason] = useState("");
  const [force, setForce] = useState(false);
  const undos = undosOf(plan);
  const undone = stepsOf(story).filter((step) => step.doneSeq !== null && !step.compensates && !step.isKept && (step.hasUndo || undos.has(step.function)))
    .sort((one, other) => other.doneSeq - one.doneSeq);
  const send = (event) => {
    event.preventDefault();
    act(() => post(runPath(run, "/cancel"), { reason: reason || "cancelled in the console", force }, query),
      (answer) => (answer?.is_sent === false ? "It had ended already." : "It was asked to stop.")).then((done) => done && close());
  };
  return html`<${Dialog} title=${`Cancel ${run.id}?`} onClose=${close}><form onSubmit=${send}>
    <p>Its children stop first, then its body may clean up. ${!plan ? "No plan says what is undone then: every step that declares a compensation, last first."
      : undone.length ? `Then ${undone.length === 1 ? "this is" : "these are"} undone, in this order:` : "Nothing it did so far declares how it is undone."}</p>
    ${undone.length > 0 && html`<${Keys} steps=${undone} most=${12} />`}
    <div class="field"><label for="why">Reason</label><input id="why" autofocus value=${reason} onInput=${(e) => setReason(e.target.value)} /></div>
    <div class="field check"><input type="checkbox" id="force" checked=${force} onChange=${(e) => setForce(e.target.checked)} />
      <label for="force">By force: its body gets no say</label></div>
    <${Buttons} close=${close}><button class="danger">Cancel the run</button></${Buttons}></form></${Dialog}>`;
}

function Delete({ run, close, query }) {
  const send = (event) => {
    event.preventDefault();
    act(() => ask("DELETE", runPath(run), { query }), "It is deleted.").then((done) => done && go("runs"));
  };
  return html`<${Dialog} title=${`Delete ${run.id}?`} onClose=${close}><form onSubmit=${send}>
    <p>Its journal and all else that is its own are gone for good.</p>
    <${Buttons} close=${close}><button class="danger">Delete it</button></${Buttons}></form></${Dialog}>`;
}

function Signal({ run, close, query, waits }) {
  const open = (waits || []).filter((wait) => wait.kind === "signal");
  const [name, setName] = useState(open[0]?.name || "");
  const [value, setValue] = useState(null);
  const [key, setKey] = useState("");
  const send = (event) => {
    event.preventDefault();
    act(() => post(runPath(run, "/signal"), { name, value, key: key || null }, query), `“${name}” is sent.`).then((done) => done && close());
  };
  return html`<${Dialog} title=${`Send ${run.id} a signal`} onClose=${close}><form onSubmit=${send}>
    <div class="field"><label for="name">Name</label><input id="name" required autofocus value=${name} onInput=${(e) => setName(e.target.value)} list="names" />
      <datalist id="names">${open.map((wait) => html`<option value=${wait.name} />`)}</datalist></div>
    <${JsonField} id="value" value=${value} onChange=${setValue} label=${html`<label for="value">Value, as JSON</label>`} />
    <div class="field"><label for="key">Key: once for each (optional)</label><input id="key" value=${key} onInput=${(e) => setKey(e.target.value)} /></div>
    <${Buttons} close=${close}><button class="primary">Send</button></${Buttons}></form></${Dialog}>`;
}

export function Fork({ run, story, close, query, before }) {
  const steps = stepsOf(story).filter((step) => !step.compensates);
  const [at, setAt] = useState(before || (steps.find((step) => step.status === "failed") || steps[steps.length - 1])?.key || "");
  const [id, setId] = useState("");
  const [edits, setEdits] = useState({});
  const seq = story.steps.get(at)?.seq ?? 0;
  const kept = steps.filter((step) => step.doneSeq !== null && step.doneSeq < seq);
  const again = steps.filter((step) => step.doneSeq === null || step.doneSeq >= seq);
  const send = async (event) => {
    event.preventDefault();
    const body = { at, id: id || null, results: edits };
    let made = null;
    if (await act(async () => { made = await post(runPath(run, "/fork"), body, query); }, "The fork is under way.")) {
      close();
      if (made?.id) go("run", [made.id], { uid: made.uid });
    }
  };
  if (!steps.length) return html`<${Dialog} title="Fork" onClose=${close}><p>There is no step to fork at yet.</p></${Dialog}>`;
  return html`<${Dialog} title=${`Fork ${run.id}`} onClose=${close}><form onSubmit=${send}>
    <p>A new run begins with a copy of this one before a step, and goes on with the code at hand. This one stays as it is.</p>
    <div class="field"><label for="at">Before the step</label><select id="at" value=${at} onChange=${(e) => { setAt(e.target.value); setEdits({}); }}>
      ${steps.map((step) => html`<option key=${step.key} value=${step.key}>${step.key}</option>`)}</select></div>
    <div class="two"><div><h4>Kept (${kept.length})</h4>${kept.slice(-30).map((step) => html`<details key=${step.key}>
        <summary><code>${step.key}</code>${step.key in edits ? " (edited)" : ""}</summary>
        <${JsonField} id=${`edit-${step.key}`} value=${step.result} label=${html`<label for=${`edit-${step.key}`}>Result</label>`}
          onChange=${(value) => setEdits({ ...edits, [step.key]: value })} /></details>`)}</div>
      <div><h4>Runs again (${again.length})</h4><${Keys} steps=${again} /></div></div>
    <div class="field"><label for="fork-id">Id (optional)</label><input id="fork-id" value=${id} onInput=${(e) => setId(e.target.value)} /></div>
    <${Buttons} close=${close}><button class="primary">Fork</button></${Buttons}></form></${Dialog}>`;
}

export function Answer({ run, wait, close }) {
  const { schema } = wait;
  const [value, setValue] = useState(schema ? initial(schema) : null);
  const [who, setWho] = useState("");
  const { data: session } = useData((signal) => get("session", null, signal), []);
  const asks = wait.kind === "approval" && session && !session.user;
  const send = (event) => {
    event.preventDefault();
    const path = runPath(run, wait.kind === "approval" ? "/approve" : "/resume");
    const body = wait.kind === "approval" ? { reason: wait.key, value, ...(asks ? { by: { id: who, scopes: wait.scope ? [wait.scope] : [] } } : {}) } : { reason: wait.name };
    act(() => post(path, body, { uid: run.uid }), wait.kind === "approval" ? "Your answer was accepted." : "The gate is open.")
      .then((done) => done && close());
  };
  return html`<${Dialog} title=${wait.question || wait.name} onClose=${close}><form onSubmit=${send}>
    <p class="faint">Run ${run.id}${wait.until && html` · until <${Time} at=${wait.until} />`}
      ${wait.approvers ? ` · may answer: ${wait.approvers}` : ""}${wait.scope ? ` · with the scope ${wait.scope}` : ""}</p>
    ${wait.kind === "approval" && html`<${SchemaForm} schema=${schema} value=${value} onChange=${setValue} id="answer" />`}
    ${asks && html`<div class="field"><label for="who">Who decides: this server does not know you</label><input id="who" required value=${who} onInput=${(e) => setWho(e.target.value)} /></div>`}
    <${Buttons} close=${close}><button class="primary" disabled=${value === undefined}>${wait.kind === "approval" ? "Send the answer" : "Open the gate"}</button></${Buttons}>
  </form></${Dialog}>`;
}

const INPUTS_KEPT = 8;
const memoryOf = (name) => `outlast:inputs:${name}`;

/** Inputs that were used before in this browser, the latest first: [{ at, id, input }]. */
function inputsOf(name) {
  try { return JSON.parse(localStorage.getItem(memoryOf(name))) || []; } catch { return []; }
}

function keepInput(name, input, id) {
  const same = JSON.stringify(input);
  const others = inputsOf(name).filter((one) => JSON.stringify(one.input) !== same);
  const kept = [{ at: new Date().toISOString(), id, input }, ...others].slice(0, INPUTS_KEPT);
  try { localStorage.setItem(memoryOf(name), JSON.stringify(kept)); } catch { /* private window, or too large: it is not remembered */ }
}

export function StartRun({ name, close }) {
  const { data, problem } = useData((signal) => get(`workflows/${encodeURIComponent(name)}`, null, signal), [name]);
  const [used] = useState(() => inputsOf(name));
  const [chosen, setChosen] = useState(used.length ? "0" : "");
  const [value, setValue] = useState(used[0]?.input);
  const [id, setId] = useState("");
  const current = value === undefined && data && chosen === "" ? initial(data.input_schema) : value;
  const choose = (which) => { setChosen(which); setValue(which === "" ? initial(data.input_schema) : used[which].input); };
  const send = async (event) => {
    event.preventDefault();
    try {
      const made = await post("runs", { workflow: name, input: current, ...(id ? { id } : {}) });
      keepInput(name, current, made.id);
      tell(`${made.id} is started.`);
      go("run", [made.id], { uid: made.uid });
    } catch (error) { tell(`${error.code}: ${error.message}`, "bad"); }
  };
  return html`<${Dialog} title=${`Start ${name}`} onClose=${close}>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${data && html`<form onSubmit=${send}>
      ${used.length > 0 && html`<div class="field"><label for="used">Begin with</label><select id="used" value=${chosen} onChange=${(e) => choose(e.target.value)}>
        <option value="">an empty form</option>
        ${used.map((one, i) => html`<option key=${one.at} value=${String(i)}>${middle(one.id || "", 26)}, ${localTime(one.at)}: ${middle(JSON.stringify(one.input), 50)}</option>`)}</select></div>`}
      <${SchemaForm} key=${chosen} schema=${data.input_schema} value=${current} onChange=${setValue} id="start" />
      <div class="field"><label for="start-id">Id: the same again is the same run (optional)</label><input id="start-id" value=${id} onInput=${(e) => setId(e.target.value)} /></div>
      <${Buttons} close=${close}><button class="primary" disabled=${current === undefined}>Start</button></${Buttons}></form>`}</${Dialog}>`;
}
