// Fields of forms. Each has a name, by which the focus finds it again when a view is shown anew.

import { h } from "../dom.js";

/** @param {string} label @param {Node} control @param {string} [kind] */
export function field(label, control, kind = "") {
  return h("label.field", { class: kind }, h("span.label", {}, label), control);
}

/** @param {(string | string[])[]} options values, or values with a text @param {string} value @param {(value: string) => void} changed @param {string} [name] */
export function choice(options, value, changed, name) {
  const select = /** @type {HTMLSelectElement} */ (h("select", { name, onchange: (/** @type {any} */ event) => changed(event.target.value) },
    options.map((option) => (Array.isArray(option) ? h("option", { value: option[0] }, option[1]) : h("option", { value: option }, option)))));
  select.value = value;
  return select;
}

/** @param {string} value @param {string} placeholder @param {string} list @param {(text: string) => void} changed @param {string} [name] */
export function textInput(value, placeholder, list, changed, name) {
  return h("input", { value, placeholder, list, name, spellcheck: "false", autocomplete: "off", onchange: (/** @type {any} */ event) => changed(event.target.value.trim()) });
}

/** Several of some words, in a list that opens. @param {string[]} words @param {string} value @param {(chosen: string) => void} changed */
export function severalOf(words, value, changed) {
  const chosen = new Set(value.split(","));
  const options = words.map((word) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", value: word, name: `stat-${word}`, onchange: () => {
      if (box.checked) chosen.add(word);
      else chosen.delete(word);
      changed(words.filter((each) => chosen.has(each)).join(",") || words[0]);
    } }));
    box.checked = chosen.has(word);
    return h("label.check", {}, box, word);
  });
  return h("details.choice", {}, h("summary", {}, value.split(",").join(", ")), h("div.panel", {}, options));
}
