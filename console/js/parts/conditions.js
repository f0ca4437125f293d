import { get, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { prefixOfKey } from "../rights.js";

const OPERATORS = /** @type {const} */ ([
  ["eq", "="], ["ne", "≠"], ["lt", "<"], ["le", "≤"], ["gt", ">"], ["ge", "≥"], ["in", "is one of"], ["prefix", "begins with"],
]);

/** @typedef {{ field: string, operator: string, value: string }} Condition */

/** A condition in the address: `field:operator:value`, each escaped. @param {Condition} condition */
export function conditionText({ field, operator, value }) {
  return [field, operator, value].map(encodeURIComponent).join(":");
}

/** @param {string} text @returns {Condition} */
export function parseCondition(text) {
  const [field = "", operator = "eq", value = ""] = text.split(":").map(decode);
  return { field, operator: OPERATORS.some(([name]) => name === operator) ? operator : "eq", value };
}

/** An address that was cut or typed may hold a lone "%", which is taken as it is. @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The parameters of a request for conditions. @param {Condition[]} conditions @returns {Record<string, string[]>} */
export function conditionParameters(conditions) {
  /** @type {Record<string, string[]>} */
  const parameters = {};
  for (const { field, operator, value } of conditions) {
    // Of a name with a colon the API takes the end for an operator.
    const name = operator === "eq" && !field.includes(":") ? `where.${field}` : `where.${field}:${operator}`;
    (parameters[name] ??= []).push(value);
  }
  return parameters;
}

/** The names of a stream's fields, as far as a rollup knows them. @param {any} stream of /v1/streams @returns {Promise<string[]>} */
export async function fieldNames(stream) {
  // A key for some series may not list the fields of all.
  if (!stream?.rollups?.length || prefixOfKey()) return [];
  try {
    const { body } = await get(streamPath(stream.stream, "fields"), { limit: 500 });
    return body.fields.map((/** @type {any} */ row) => row.field);
  } catch {
    return [];
  }
}

/**
 * Rows of field, operator and value, and a button that adds one.
 * @param {string} fields the id of a datalist @param {Condition[]} conditions @param {(conditions: Condition[]) => void} changed
 * @returns {HTMLElement}
 */
export function conditionBuilder(fields, conditions, changed) {
  const rows = conditions.map((condition) => ({ ...condition }));
  const place = h("div.conditions");
  const before = JSON.stringify(conditions);
  /** Tell the conditions that are complete, if that changes anything. */
  const tell = () => {
    const complete = rows.filter((row) => row.field && row.value !== "");
    if (JSON.stringify(complete) !== before) changed(complete);
  };

  function draw() {
    fill(place, rows.map((row, number) =>
      h("div.condition", {},
        h("input", { value: row.field, placeholder: "field", list: fields, "aria-label": "Field", spellcheck: "false",
          onchange: (/** @type {any} */ event) => { row.field = event.target.value.trim(); tell(); } }),
        select(row),
        h("input", { value: row.value, placeholder: "value", "aria-label": "Value", spellcheck: "false",
          onchange: (/** @type {any} */ event) => { row.value = event.target.value; tell(); } }),
        h("button.quiet", { type: "button", "aria-label": `Remove the condition on ${row.field || "nothing"}`,
          onclick: () => { rows.splice(number, 1); draw(); /** @type {HTMLElement | null} */ (place.querySelector(".add"))?.focus(); tell(); } }, "✕"))),
      h("button.quiet.add", { type: "button", disabled: rows.length >= 10,
        onclick: () => { rows.push({ field: "", operator: "eq", value: "" }); draw(); [...place.querySelectorAll(".condition")].at(-1)?.querySelector("input")?.focus(); } },
        "+ Condition"));
  }

  /** @param {Condition} row */
  function select(row) {
    const element = h("select", { "aria-label": "Operator",
      onchange: (/** @type {any} */ event) => { row.operator = event.target.value; tell(); } },
      OPERATORS.map(([name, sign]) => h("option", { value: name }, sign)));
    /** @type {HTMLSelectElement} */ (element).value = row.operator;
    return element;
  }

  draw();
  return place;
}
