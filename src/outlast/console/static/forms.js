// Forms from JSON Schemas: what can be drawn is drawn, anything else is a field for JSON.

import { html, useState } from "./vendor/preact.js";

export function resolve(schema, root) {
  let found = schema || {};
  for (let i = 0; i < 20 && found.$ref; i += 1) found = root.$defs?.[found.$ref.split("/").pop()] || {};
  return found;
}

const isNull = (schema) => schema.type === "null";

/** [schema without null, whether null is allowed] */
function unwrap(schema, root) {
  const found = resolve(schema, root);
  if (!found.anyOf) return [found, isNull(found)];
  const options = found.anyOf.map((one) => resolve(one, root));
  const others = options.filter((one) => !isNull(one));
  return others.length === 1 ? [{ ...others[0], default: found.default }, others.length < options.length] : [{ json: true }, false];
}

export function initial(schema, root = schema) {
  const found = resolve(schema, root);
  if (found.default !== undefined) return structuredClone(found.default);
  if (found.const !== undefined) return found.const;
  if (found.enum) return found.enum[0];
  const [inner, nullable] = unwrap(schema, root);
  if (nullable) return null;
  switch (inner.type) {
    case "object": return Object.fromEntries(Object.entries(inner.properties || {}).map(([key, one]) => [key, initial(one, root)]));
    case "array": return [];
    case "boolean": return false;
    case "integer": case "number": return 0;
    case "string": return "";
    default: return null;
  }
}

export function Field({ schema, root, value, onChange, name, required, id }) {
  const [inner, nullable] = unwrap(schema, root);
  const own = `${id}-${name}`;
  const label = html`<label for=${own}>${inner.title && !inner.properties ? inner.title : name}
    ${required && html`<span class="must" aria-hidden="true">*</span>`}</label>`;
  if (inner.enum) {
    return html`<div class="field">${label}<select id=${own} value=${JSON.stringify(value)} onChange=${(e) => onChange(JSON.parse(e.target.value))}>
      ${nullable && html`<option value="null">none</option>`}
      ${inner.enum.map((one) => html`<option value=${JSON.stringify(one)}>${String(one)}</option>`)}</select></div>`;
  }
  if (inner.type === "boolean" && !nullable) {
    return html`<div class="field check"><input type="checkbox" id=${own} checked=${!!value} onChange=${(e) => onChange(e.target.checked)} />${label}</div>`;
  }
  if (inner.type === "string") {
    const isLong = (value || "").length > 60 || (value || "").includes("\n");
    const change = (e) => onChange(nullable && e.target.value === "" ? null : e.target.value);
    return html`<div class="field">${label}${isLong
      ? html`<textarea id=${own} rows="4" value=${value ?? ""} onInput=${change} />`
      : html`<input id=${own} value=${value ?? ""} onInput=${change} placeholder=${nullable ? "none" : inner.format || ""} />`}
      ${inner.description && html`<small>${inner.description}</small>`}</div>`;
  }
  if (inner.type === "integer" || inner.type === "number") {
    return html`<div class="field">${label}<input id=${own} type="number" step=${inner.type === "integer" ? 1 : "any"} value=${value ?? ""}
      onInput=${(e) => onChange(e.target.value === "" ? null : Number(e.target.value))} /></div>`;
  }
  if (inner.type === "object" && inner.properties && value !== null) {
    return html`<fieldset><legend>${name}</legend><${Fields} schema=${inner} root=${root} value=${value} onChange=${onChange} id=${own} /></fieldset>`;
  }
  if (inner.type === "array" && inner.items && !inner.prefixItems) {
    const items = value || [];
    return html`<fieldset><legend>${name}</legend>
      ${items.map((one, at) => html`<div class="item" key=${at}>
        <${Field} schema=${inner.items} root=${root} value=${one} name=${String(at + 1)} id=${own}
          onChange=${(next) => onChange(items.map((old, i) => (i === at ? next : old)))} />
        <button type="button" class="icon" aria-label=${`Remove ${at + 1}`} onClick=${() => onChange(items.filter((_, i) => i !== at))}>✕</button></div>`)}
      <button type="button" onClick=${() => onChange([...items, initial(inner.items, root)])}>Add</button></fieldset>`;
  }
  return html`<${JsonField} label=${label} id=${own} value=${value} onChange=${onChange} />`;
}

export function JsonField({ label, id, value, onChange, rows = 3 }) {
  const [text, setText] = useState(JSON.stringify(value ?? null, null, 2));
  const [wrong, setWrong] = useState("");
  const change = (next) => {
    setText(next);
    try { onChange(JSON.parse(next)); setWrong(""); } catch (error) { setWrong(error.message); onChange(undefined); }
  };
  return html`<div class="field">${label}<textarea id=${id} rows=${rows} class="mono" value=${text} aria-invalid=${!!wrong}
    onInput=${(e) => change(e.target.value)} />${wrong && html`<small class="bad">${wrong}</small>`}</div>`;
}

export function Fields({ schema, root, value, onChange, id }) {
  const found = resolve(schema, root);
  const required = new Set(found.required || []);
  return html`${Object.entries(found.properties || {}).map(([key, one]) => html`
    <${Field} key=${key} schema=${one} root=${root} value=${value?.[key] ?? null} name=${key} id=${id} required=${required.has(key)}
      onChange=${(next) => onChange({ ...value, [key]: next })} />`)}`;
}

/** A form for a whole schema, with a switch to plain JSON. */
export function SchemaForm({ schema, value, onChange, id = "form" }) {
  const [raw, setRaw] = useState(false);
  const found = resolve(schema, schema);
  const canDraw = found.type === "object" && found.properties;
  return html`<div class="schema-form">
    ${canDraw && html`<button type="button" class="link" onClick=${() => setRaw(!raw)}>${raw ? "as a form" : "as JSON"}</button>`}
    ${canDraw && !raw
      ? html`<${Fields} schema=${found} root=${schema} value=${value} onChange=${onChange} id=${id} />`
      : canDraw || !schema ? html`<${JsonField} id=${id} value=${value} onChange=${onChange} rows=${8} label=${html`<label for=${id}>JSON</label>`} />`
      : html`<${Field} schema=${schema} root=${schema} value=${value} name="value" onChange=${onChange} id=${id} />`}
  </div>`;
}
