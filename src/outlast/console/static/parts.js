// What all views are made of: statuses, times, values, errors, dialogs, lists, data that stays fresh.

import { html, useCallback, useEffect, useRef, useState } from "./vendor/preact.js";
import { glyph, localTime, middle, size, span, tone, words, ms } from "./format.js";
import { href } from "./router.js";

export const Status = ({ of, small }) => html`
  <span class=${`status ${tone(of)} ${small ? "small" : ""}`}><i aria-hidden="true">${glyph(of)}</i>${words(of)}</span>`;

export const Time = ({ at }) => at
  ? html`<time datetime=${at} title=${`${at} (UTC)`}>${localTime(at)}</time>` : html`<span class="faint">–</span>`;

export const Took = ({ from, to }) => {
  const now = useNow(!to && !!from);
  return html`<span class="num">${from ? span((ms(to) ?? now) - ms(from)) : "–"}</span>`;
};

export function useNow(ticks = true) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!ticks) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticks]);
  return now;
}

export function Copy({ text, most = 22 }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); } catch { return; }
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button class="copy" title=${`Copy ${text}`} onClick=${copy}>${done ? "copied" : middle(text, most)}</button>`;
}

/** Beside a link, which a click follows: copies what it names. */
export function CopyMark({ text }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); } catch { return; }
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button class="icon copy-mark" aria-label=${`Copy ${text}`} title=${`Copy ${text}`} onClick=${copy}>${done ? "✓" : "⧉"}</button>`;
}

export const RunLink = ({ run, most = 26, main }) => html`
  <a class=${main ? "row-link" : null} href=${href("run", [run.id], { uid: run.uid })} title=${run.id}>${middle(run.id, most)}</a>`;

const PORTION = 100;

/** A value as a tree: what is long is folded. */
export function Value({ of, name, open = true, depth = 0 }) {
  const [shown, setShown] = useState(open && depth < 3);
  const [most, setMost] = useState(PORTION);
  const label = name === undefined ? null : html`<span class="name">${name}: </span>`;
  if (of === null || typeof of !== "object") {
    const text = typeof of === "string" ? JSON.stringify(of) : String(of);
    return html`<div class="value">${label}<${Text} text=${text} kind=${of === null ? "null" : typeof of} /></div>`;
  }
  const isList = Array.isArray(of);
  const entries = Object.entries(of);
  const summary = isList ? `[${entries.length}]` : `{${entries.length}}`;
  if (!entries.length) return html`<div class="value">${label}<span class="faint">${isList ? "[]" : "{}"}</span></div>`;
  return html`<div class="value">
    <button class="fold" aria-expanded=${shown} onClick=${() => setShown(!shown)}>
      <i aria-hidden="true">${shown ? "▾" : "▸"}</i>${label}<span class="faint">${summary}</span></button>
    ${shown && html`<div class="nest">
      ${entries.slice(0, most).map(([key, value]) => html`<${Value} key=${key} of=${value} name=${key} depth=${depth + 1} />`)}
      ${entries.length > most && html`<button class="link" onClick=${() => setMost(most + PORTION)}>… ${Math.min(PORTION, entries.length - most)} more of ${entries.length - most}</button>`}</div>`}
  </div>`;
}

function Text({ text, kind }) {
  const [all, setAll] = useState(false);
  if (text.length <= 300 || all) return html`<span class=${`v-${kind}`}>${text}</span>`;
  return html`<span class=${`v-${kind}`}>${text.slice(0, 300)}…</span>
    <button class="link" onClick=${() => setAll(true)}>all ${text.length} characters</button>`;
}

const SEARCHED_FROM = 200;
const MOST_FOUND = 50;

/** Where in a value a text stands, in names or in what they hold: paths with what is there. */
function findIn(value, text) {
  const found = [];
  const look = (one, path) => {
    if (found.length > MOST_FOUND) return;
    if (one === null || typeof one !== "object") {
      if (String(one).toLowerCase().includes(text)) found.push([path, one]);
      return;
    }
    for (const [key, inner] of Object.entries(one)) {
      const at = Array.isArray(one) ? `${path}[${key}]` : path ? `${path}.${key}` : key;
      if (!Array.isArray(one) && key.toLowerCase().includes(text) && found.length <= MOST_FOUND) found.push([at, inner]);
      else look(inner, at);
    }
  };
  look(value, "");
  return found;
}

function Found({ of, text }) {
  const found = findIn(of, text.toLowerCase());
  return html`<div role="status">${!found.length && html`<p class="faint">Not in here.</p>`}
    ${found.slice(0, MOST_FOUND).map(([path, value]) => html`<${Value} key=${path} of=${value} name=${path || "value"} open=${false} />`)}
    ${found.length > MOST_FOUND && html`<p class="faint">and more: say more of it</p>`}</div>`;
}

/** A value with its size, to be copied, and searched where it is no longer seen at a glance. */
export function Box({ title, of }) {
  const [text, setText] = useState("");
  const bytes = size(of);
  return html`<section class="box" aria-label=${title}>
    <header><h4>${title}</h4><span class="faint num">${bytes} B</span>
      ${bytes > SEARCHED_FROM && of !== null && typeof of === "object" && html`<input type="search" class="seek" aria-label=${`Search in ${title}`} placeholder="Search" value=${text}
        onInput=${(e) => setText(e.target.value.trim())} />`}
      <${Copy} text=${JSON.stringify(of, null, 2)} most=${0} /></header>
    ${text ? html`<${Found} of=${of} text=${text} />` : html`<${Value} of=${of} />`}</section>`;
}

const isOurs = (line) => /site-packages|\/outlast\/|\/asyncio\/|<frozen/.test(line);

/** An error, folded to the author's own frames. */
export function Failure({ error, title = "Error" }) {
  const [all, setAll] = useState(false);
  if (!error) return null;
  const lines = (error.traceback || "").split("\n");
  const kept = [];
  for (let i = 0; i < lines.length; i += 1) {
    const isFrame = /^\s*File "/.test(lines[i]);
    if (isFrame && isOurs(lines[i]) && !all) { while (i + 1 < lines.length && !/^\s*File "|^\S/.test(lines[i + 1])) i += 1; }
    else kept.push(lines[i]);
  }
  return html`<section class="failure" role="group" aria-label=${title}>
    <header><b>${error.type}</b>${error.code && html` <code>${error.code}</code>`}
      ${error.expected && html` <span class="faint">expected</span>`}</header>
    <p>${error.message}</p>
    ${error.traceback && html`<pre tabindex="0">${kept.join("\n").trim()}</pre>
      ${kept.length < lines.length || all ? html`<button class="link" onClick=${() => setAll(!all)}>
        ${all ? "only my frames" : "all frames"}</button>` : null}`}
    ${error.cause && html`<${Failure} error=${error.cause} title="Cause" />`}
    ${(error.members || []).map((member) => html`<${Failure} error=${member} title="Member" />`)}
  </section>`;
}

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;
export const Loading = () => html`<div class="empty" role="status">Loading …</div>`;
export const Trouble = ({ problem, retry }) => html`<div class="empty bad" role="alert">
  <b>${problem.code}</b><p>${problem.message}</p>${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;

/** Data of a view: `load` is asked again whenever something in `keys` changes, or `again` is called. */
export function useData(load, keys) {
  const [state, setState] = useState({ data: null, problem: null });
  const [count, setCount] = useState(0);
  const again = useCallback(() => setCount((n) => n + 1), []);
  useEffect(() => {
    const abort = new AbortController();
    load(abort.signal).then((data) => setState({ data, problem: null }), (problem) => {
      if (problem.name !== "AbortError") setState((old) => ({ data: old.data, problem }));
    });
    return () => abort.abort();
  }, [...keys, count]);
  return { ...state, again };
}

export function Dialog({ title, onClose, children }) {
  const ref = useRef();
  useEffect(() => { const dialog = ref.current; dialog.showModal(); return () => dialog.close(); }, []);
  return html`<dialog ref=${ref} aria-label=${title} onCancel=${onClose}
      onClick=${(event) => event.target === ref.current && onClose()}>
    <header><h3>${title}</h3><button class="icon" aria-label="Close" onClick=${onClose}>✕</button></header>
    <div class="inside">${children}</div></dialog>`;
}

let say = () => {};
export const tell = (text, kind = "good") => say({ text, kind, id: Math.random() });
export function Toasts() {
  const [toasts, setToasts] = useState([]);
  say = (toast) => {
    setToasts((all) => [...all, toast]);
    setTimeout(() => setToasts((all) => all.filter((one) => one.id !== toast.id)), toast.kind === "bad" ? 9000 : 4000);
  };
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map((toast) => html`<div key=${toast.id} class=${toast.kind}>${toast.text}</div>`)}</div>`;
}

/** Do something, and say what came of it. Gives whether it went well. */
export async function act(doing, done) {
  try {
    const answer = await doing();
    tell(typeof done === "function" ? done(answer) : done);
    return true;
  } catch (problem) {
    tell(`${problem.code || "Error"}: ${problem.message}`, "bad");
    return false;
  }
}
