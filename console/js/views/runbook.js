// The runbook of the version that is deployed: one section, and the way to the others.

import { fill, h } from "../dom.js";
import { sectionsOf, showMarkdown } from "../parts/markdown.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { go, hashOf } from "../state.js";

/** It lies beside the folder of the modules. */
const FILE = new URL("../../runbook.md", import.meta.url);

/** @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} _streams @param {AbortSignal} signal */
export async function showRunbook(place, values, _streams, signal) {
  fill(place, showBusy());
  try {
    const response = await fetch(FILE, { signal });
    if (!response.ok) throw new Error(`The runbook could not be loaded: ${response.status}.`);
    const text = await response.text();
    if (!signal.aborted) draw(place, sectionsOf(text), values.get("section") ?? "runbook");
  } catch (error) {
    if (!signal.aborted) fill(place, showProblem(error, () => showRunbook(place, values, _streams, signal)));
  }
}

/** @param {HTMLElement} place @param {{ title: string, slug: string, depth: number, text: string }[]} sections @param {string} chosen */
function draw(place, sections, chosen) {
  const section = sections.find(({ slug }) => slug === chosen);
  const select = /** @type {HTMLSelectElement} */ (h("select", { onchange: (/** @type {any} */ event) => go("runbook", { section: event.target.value }) },
    sections.filter(({ depth }) => depth < 3).map(({ title, slug }) => h("option", { value: slug }, title))));
  select.value = chosen;
  fill(place,
    h("div.viewbar", {}, h("h1", {}, section && section.depth > 1 ? `Runbook: ${section.title}` : "Runbook"), h("a.button", { href: hashOf("tide", {}) }, "Back to the tide")),
    h("label.field.inline", {}, h("span.label", {}, "Section"), select),
    section ? h("section.result.prose", {}, showMarkdown(section.text, linkOf)) : showEmpty("No such section", "The runbook of this version has no section of that name. Choose another."));
}

/** Other documents are not served here: their links stay text. @param {string} target */
function linkOf(target) {
  return target.startsWith("#") ? hashOf("runbook", { section: target.slice(1) }) : null;
}
