// What rings, what is wrong, and what the lifecycle is about to do.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { showProblem } from "../parts/problem.js";
import { runbookLink, withRunbook } from "../parts/runbook.js";
import { showTable } from "../parts/table.js";
import { showTime } from "../times.js";

// Actions of a report that nobody does: they say that somebody must look.
const FINDINGS = ["stuck", "lost", "copy-trouble"];

/** @param {AbortSignal} signal @returns {HTMLElement} */
export function showOperations(signal) {
  const alarms = h("div", {}, h("span.hint", {}, "Looking at the alarms…"));
  const plan = h("div", {}, h("span.hint", {}, "Asking the lifecycle what it would do…"));
  load("v1/alarms", alarms, (body) => showAlarms(body.alarms));
  load("v1/plan", plan, (body) => showPlan(body.plan));
  return h("section.operations", { "aria-label": "Operations" }, alarms, plan);

  /** @param {string} path @param {HTMLElement} place @param {(body: any) => Node} show */
  async function load(path, place, show) {
    try {
      const { body } = await get(path, {}, signal);
      if (!signal.aborted) fill(place, show(body));
    } catch (error) {
      if (!signal.aborted) fill(place, showProblem(error, () => load(path, place, show)));
    }
  }
}

/** @param {any[]} alarms */
function showAlarms(alarms) {
  const ringing = alarms.filter((alarm) => alarm.state === "ALARM");
  if (!ringing.length) return h("p.calm", {}, alarms.length ? `None of ${plural(alarms.length, "alarm")} rings.` : "This stage has no alarms.");
  return h("div.problem", { role: "alert" }, h("strong", {}, `${plural(ringing.length, "alarm")} ${ringing.length === 1 ? "rings" : "ring"}`),
    h("ul", {}, ringing.map((alarm) => h("li", {}, h("b", {}, alarm.name), alarm.since ? ` since ${showTime(alarm.since)}` : "", h("p", {}, withRunbook(alarm.description))))));
}

/** @param {any} plan the report of a dry run */
function showPlan(plan) {
  const findings = plan.actions.filter((/** @type {any} */ action) => FINDINGS.includes(action.action));
  const steps = plan.actions.filter((/** @type {any} */ action) => !FINDINGS.includes(action.action));
  const notes = [
    ...plan.troubles.map((/** @type {string} */ text) => note(`Trouble: ${text}`, "lifecycleunhealthy")),
    ...plan.without_next_table.map((/** @type {string} */ name) => note(`${name} has no table for its next period yet.`, "nexttablemissing")),
    ...plan.archives_overdue.map((/** @type {string} */ name) => note(`The archive of ${name} is overdue.`, "archiveoverdue")),
    ...findings.map((/** @type {any} */ finding) => note(`${finding.table}: ${finding.reason}`, sectionOf(finding.reason))),
    ...(plan.catalog_copies ?? []).filter((/** @type {any} */ step) => step.outcome === "failed")
      .map((/** @type {any} */ step) => note(`The catalog's copy in ${step.region}: ${step.detail}`, "copies-in-other-regions")),
    ...plan.changes.map((/** @type {string} */ text) => [`A change that is still to come: ${text}.`]),
    ...plan.removed_streams.map((/** @type {any} */ stream) => note(`${stream.stream} left the configuration; ${plural(stream.tables, "table")} of it still exist.`, "removing-a-stream")),
  ];
  return h("div.plan", {},
    notes.length ? h("ul.notes.warn", {}, notes.map((parts) => h("li", {}, parts))) : null,
    plan.skipped ? h("p.hint", {}, note(`A run is in progress: ${plan.skipped}.`, "another-run-is-under-way")) : steps.length
      ? h("details", {}, h("summary", {}, `The next run does ${plural(steps.length, "step")}`), showTable([
        { name: "step", cell: (step) => step.action },
        { name: "stream", cell: (step) => step.stream },
        { name: "period", cell: (step) => step.period },
        { name: "why", cell: (step) => h("span", {}, withRunbook(step.reason, sectionOf(step.reason))) },
        { name: "", cell: (step) => (step.outcome === "planned" ? "" : h("span", {}, note(`${step.outcome} ${step.detail}`, step.outcome === "failed" ? "lifecyclefailing" : ""))) },
      ], steps, { caption: "The steps of the next run" }))
      : h("p.calm", {}, "The lifecycle has nothing to do."));
}

/** A finding, and the section that says what to do. @param {string} text @param {string} section @returns {(Node | string)[]} */
function note(text, section) {
  const parts = withRunbook(text, section);
  return section && parts.every((part) => typeof part === "string") ? [...parts, " ", runbookLink(section)] : parts;
}

/** The section about a table that the lifecycle cannot work with. @param {string} reason */
function sectionOf(reason) {
  return reason.includes("no such table") ? "lost-tables" : "tables-that-cannot-be-used";
}
