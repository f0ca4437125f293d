// What rings, what is wrong, and what the lifecycle is about to do.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { showProblem } from "../parts/problem.js";
import { showTable } from "../parts/table.js";
import { showTime } from "../times.js";

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
    h("ul", {}, ringing.map((alarm) => h("li", {}, h("b", {}, alarm.name), alarm.since ? ` since ${showTime(alarm.since)}` : "", h("p", {}, alarm.description)))));
}

/** @param {any} plan the report of a dry run */
function showPlan(plan) {
  const findings = plan.actions.filter((/** @type {any} */ action) => action.action === "stuck");
  const steps = plan.actions.filter((/** @type {any} */ action) => action.action !== "stuck");
  const notes = [
    ...plan.troubles.map((/** @type {string} */ text) => `Trouble: ${text}`),
    ...plan.without_next_table.map((/** @type {string} */ name) => `${name} has no table for its next period yet.`),
    ...plan.archives_overdue.map((/** @type {string} */ name) => `The archive of ${name} is overdue.`),
    ...findings.map((/** @type {any} */ finding) => `${finding.table}: ${finding.reason}`),
    ...plan.changes.map((/** @type {string} */ text) => `A change that is still to come: ${text}.`),
    ...plan.removed_streams.map((/** @type {any} */ stream) => `${stream.stream} left the configuration; ${plural(stream.tables, "table")} of it still exist.`),
  ];
  return h("div.plan", {},
    notes.length ? h("ul.notes.warn", {}, notes.map((note) => h("li", {}, note))) : null,
    plan.skipped ? h("p.hint", {}, `A run is under way: ${plan.skipped}.`) : steps.length
      ? h("details", {}, h("summary", {}, `The next run does ${plural(steps.length, "step")}`), showTable([
        { name: "step", cell: (step) => step.action },
        { name: "stream", cell: (step) => step.stream },
        { name: "period", cell: (step) => step.period },
        { name: "why", cell: (step) => step.reason },
        { name: "", cell: (step) => (step.outcome === "planned" ? "" : `${step.outcome} ${step.detail}`) },
      ], steps, { caption: "The steps of the next run" }))
      : h("p.calm", {}, "The lifecycle has nothing to do."));
}
