import { Problem } from "../api.js";
import { h, say, withCode } from "../dom.js";

const REMEDIES = /** @type {Record<string, string>} */ ({
  unauthorized: "Enter a key with the button “Key” above.",
  forbidden: "Enter a key that may do this, with the button “Key” above. A stage's operator makes one with `bin/tidetable keys create`.",
  forbidden_series: "Choose series of this key, or enter another key with the button “Key” above.",
  throttled: "The rate of this key or stage is used up. Wait a moment.",
  needs_series: "Name a series: this stream keeps each series in a partition of its own.",
  needs_index: "No index answers this query. Remove a condition, or add the index that the message names.",
  needs_rollup: "The list comes from a rollup. This stream has no rollup for it.",
  too_much: "Choose a shorter range or a coarser step.",
  too_many_groups: "Group by fewer fields, or show only the first groups.",
  no_answer: "",
});

/**
 * What went wrong, what to do, and a button that tries again, unless the question itself is wrong.
 * @param {unknown} error @param {() => void} [retry] @returns {HTMLElement}
 */
export function showProblem(error, retry) {
  const problem = error instanceof Problem ? error : new Problem(0, "console_error", String(/** @type {any} */ (error)?.message ?? error));
  const remedy = REMEDIES[problem.code] ?? "";
  const wait = problem.wait ? ` Try again in ${problem.wait} s.` : "";
  say(`Error: ${problem.message}`);
  return h(
    "div.problem",
    { role: "alert" },
    h("strong", {}, problem.status ? `${problem.status} ${problem.code}` : problem.code),
    h("p", {}, withCode(problem.message)),
    remedy || wait ? h("p.remedy", {}, withCode(remedy + wait)) : null,
    retry && problem.status !== 400 ? h("button", { type: "button", onclick: retry }, "Try again") : null,
  );
}

/** @param {string} title @param {string} text @param {...(Node | null)} more @returns {HTMLElement} */
export function showEmpty(title, text, ...more) {
  return h("div.empty", {}, h("strong", {}, title), h("p", {}, text), ...more);
}

/** @param {string} [text] @returns {HTMLElement} */
export function showBusy(text = "Reading…") {
  return h("div.busy", { role: "status" }, h("span.wave"), text);
}
