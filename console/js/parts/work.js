// The work in the background, as `/v1/activity` says it. It knows no kinds: a new kind of work is a new row.

import { h } from "../dom.js";
import { plural, showNumber } from "../format.js";
import { lengthWords } from "./rate.js";
import { runbookLink } from "./runbook.js";
import { showTable } from "./table.js";

/**
 * What is due, runs, failed or rests, and the command that helps.
 * @param {any[]} rows @returns {HTMLElement}
 */
export function showWork(rows) {
  const due = rows.reduce((sum, row) => sum + row.due, 0);
  const title = h("h2", {}, "Background work");
  if (!rows.length) return h("section.work", { "aria-label": "Background work" }, title, h("p.calm", {}, "Nothing waits, runs, failed or rests."));
  return h("section.work", { "aria-label": "Background work" }, title,
    h("p.hint", {}, `${plural(due, "item")} due, and what rests. The commands are for a terminal of an operator.`),
    showTable([
      { name: "kind", cell: (row) => row.kind },
      { name: "stream", cell: (row) => row.stream ?? "the whole stage" },
      { name: "due", number: true, cell: (row) => showNumber(row.due) },
      { name: "running", number: true, cell: (row) => showNumber(row.running) },
      { name: "failed", number: true, cell: (row) => showNumber(row.failed) },
      { name: "oldest", number: true, cell: (row) => (row.waiting ? lengthWords(row.oldest_seconds * 1000) : "") },
      { name: "why", cell: (row) => h("span", {}, why(row)) },
      { name: "command", cell: (row) => (row.command ? h("code", {}, row.command) : "") },
    ], rows, { caption: "Background work" }));
}

/** @param {any} row @returns {(Node | string)[]} */
function why({ paused, problem, alarm }) {
  return [[paused ? "It rests." : "", problem ?? ""].filter(Boolean).join(" "), alarm ? " " : "", alarm ? runbookLink(alarm.toLowerCase()) : ""];
}
