// The page: where one is, who one is, and what is shown. Everything else is a view.

import { html, render, useEffect, useState } from "./vendor/preact.js";
import { ask, follow, get, post, whenSignedOut } from "./api.js";
import { Dialog, Toasts, Trouble, act, tell } from "./parts.js";
import { Palette } from "./palette.js";
import { Workflows, WorkflowView } from "./definitions.js";
import { followLinks, go, href, useRoute } from "./router.js";
import { Runs } from "./runs.js";
import { RunView } from "./run.js";
import { Waits } from "./waits.js";
import { Queues, Workers } from "./workers.js";

const PLACES = [["workflows", "Workflows"], ["runs", "Runs"], ["waits", "Waits"], ["workers", "Workers"], ["queues", "Queues"]];
const STEPS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

/** Through the list that is shown: j and k from anywhere, arrows from a row of it, since elsewhere they scroll. On a run: into
    its waterfall, which goes on by itself. */
function stepThrough(event) {
  const by = STEPS[event.key];
  if (!by || event.defaultPrevented) return;
  const links = [...document.querySelectorAll("#main .row-link")];
  const row = document.activeElement.closest("#main tr, #main article");
  const at = row ? links.findIndex((link) => row.contains(link)) : -1;
  const isLetter = event.key.length === 1;
  if (at < 0 && !isLetter) return;
  const rows = document.querySelector("#main .rows");
  const to = at < 0 ? links[0] : links[at + by];
  if (to) { event.preventDefault(); to.focus(); } else if (rows && !rows.contains(document.activeElement)) {
    rows.focus();
    rows.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
  }
}

const KEYS = [["/", "find a run, a workflow, a place"], ["j k ↓ ↑", "through lists and steps"], ["← →", "through time, on the slider"],
  ["+ − 0", "zoom a waterfall, or show all of it; so does the wheel with Ctrl"], ["z", "zoom to the step (or click it twice)"],
  ["g r, g w", "to runs, to workflows"], ["?", "this"]];

function App() {
  const route = useRoute();
  const [session, setSession] = useState(null);
  const [problem, setProblem] = useState(null);
  const [open, setOpen] = useState(null);
  const [changes, setChanges] = useState(0);
  const [live, setLive] = useState(true);
  const look = () => get("session").then((found) => { setSession(found); setProblem(null); }, setProblem);
  useEffect(() => { look(); whenSignedOut(() => setSession((old) => (old ? { ...old, is_signed_in: false } : old))); }, []);
  useEffect(() => {
    if (!session?.is_signed_in) return undefined;
    return follow("changes", {}, { event: "change", onMessage: () => setChanges((n) => n + 1), onState: setLive });
  }, [session?.is_signed_in]);
  useEffect(() => {
    let before = "";
    const press = (event) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.metaKey || event.ctrlKey || event.altKey) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "/") { event.preventDefault(); setOpen("palette"); }
      if (event.key === "?") setOpen("keys");
      if (before === "g" && event.key === "r") go("runs");
      if (before === "g" && event.key === "w") go("workflows");
      before = event.key;
      stepThrough(event);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  useEffect(() => { document.title = [route.parts[0], route.view, "outlast"].filter(Boolean).join(" · "); }, [route]);
  if (problem) return html`<${Trouble} problem=${problem} retry=${look} />`;
  if (!session) return null;
  if (!session.is_signed_in) return html`<${SignIn} session=${session} done=${look} /><${Toasts} />`;
  return html`<div class="page" onClick=${followLinks}>
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <nav aria-label="Places"><a class="logo" href=${href("runs")}><img src="icon.svg" alt="" width="24" height="24" /> outlast</a>
      ${PLACES.map(([view, name]) => html`<a key=${view} href=${href(view)} aria-current=${isAt(route, view) ? "page" : null}>${name}</a>`)}
      <button class="find" onClick=${() => setOpen("palette")}>Find <kbd>/</kbd></button>
      <div class="who">${!live && html`<span class="bad" role="status">offline</span>`}
        ${session.user && html`<span>${session.user}</span>`}
        ${session.mode === "token" && html`<button class="link" onClick=${() => act(() => ask("DELETE", "session"), "Signed out.").then(look)}>Sign out</button>`}</div></nav>
    <main id="main" tabindex="-1">${viewOf(route, changes)}</main>
    ${open === "palette" && html`<${Palette} close=${() => setOpen(null)} />`}
    ${open === "keys" && html`<${Dialog} title="Keys" onClose=${() => setOpen(null)}><dl class="keys">${KEYS.map(([key, what]) => html`<dt key=${key}><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl></${Dialog}>`}
    <${Toasts} /></div>`;
}

const isAt = (route, view) => route.view === view || (view === "runs" && route.view === "run") || (view === "workflows" && route.view === "workflow");

function viewOf({ view, parts, query }, changes) {
  switch (view) {
    case "run": return html`<${RunView} key=${`${parts[0]} ${query.uid}`} id=${parts[0]} query=${query} changes=${changes} />`;
    case "workflows": return html`<${Workflows} changes=${changes} />`;
    case "workflow": return html`<${WorkflowView} name=${parts[0]} query=${query} changes=${changes} />`;
    case "waits": return html`<${Waits} changes=${changes} />`;
    case "workers": return html`<${Workers} changes=${changes} />`;
    case "queues": return html`<${Queues} changes=${changes} />`;
    case "runs": return html`<${Runs} query=${query} changes=${changes} />`;
    default: return html`<${Trouble} problem=${{ code: "NO_SUCH_PAGE", message: "Nothing is here." }} />`;
  }
}

function SignIn({ session, done }) {
  const [token, setToken] = useState("");
  const send = async (event) => {
    event.preventDefault();
    try { await post("session", { token }); done(); } catch (problem) { tell(problem.message, "bad"); }
  };
  if (session.mode !== "token") return html`<${Trouble} problem=${{ code: "NOT_SIGNED_IN", message: "Sign in with the host of this page, and come back." }} retry=${done} />`;
  return html`<form class="sign-in" onSubmit=${send}><h1><img src="icon.svg" alt="" width="32" height="32" /> outlast</h1>
    <div class="field"><label for="token">Token</label><input id="token" type="password" autocomplete="current-password" autofocus required value=${token} onInput=${(e) => setToken(e.target.value)} /></div>
    <button class="primary">Sign in</button></form>`;
}

render(html`<${App} />`, document.getElementById("app"));
