// The answer to a question, as a chart or a table.

import { h, fill } from "../dom.js";
import { flatten, isNumber, plural, showNumber } from "../format.js";
import { MOST_POINTS, stepOf } from "../question.js";
import { note } from "../state.js";
import { ADDED, TIMES } from "../statistics.js";
import { lengthText, showTime, zoneName } from "../times.js";
import { openEvent } from "../views/event.js";
import { drawChart } from "./chart.js";
import { choice } from "./controls.js";
import { drawHeatmap } from "./heatmap.js";
import { groupName, linesOf, overlay, pointsOf } from "./points.js";
import { fieldColumn, showTable } from "./table.js";

const FORMS = [["lines", "Lines"], ["bars", "Bars"], ["points", "Points"], ["heat", "Heat map"]];
const MOST_LINES = 20;
const MOST_COLUMNS = 40;

/**
 * @typedef {import("../question.js").Question} Question
 * @typedef {{ rows: any[], body: any, before: { distance: number, answer: import("../api.js").Answer } | null, question: Question, stream: any,
 *   change: (changes: Partial<Question>) => void }} Shown
 */

/** @param {HTMLElement} content @param {Shown} shown @returns {{ destroy?: () => void } | null} the chart */
export function showEvents(content, { rows, body, question, stream, change }) {
  const flat = rows.map((row) => ({ row, flat: flatten(row.data) }));
  const paths = [...new Set(flat.flatMap((row) => Object.keys(row.flat)))];
  const numeric = paths.filter((path) => flat.some((row) => isNumber(row.flat[path])));
  const more = body.next ? h("p.more", {}, `These are the first ${plural(rows.length, "event")}. `,
    Number(question.limit) < MOST_POINTS ? h("button", { type: "button", onclick: () => change({ limit: String(Math.min(Number(question.limit) * 10, MOST_POINTS)) }) },
      "Show more") : "Choose a shorter range to see the other rows.") : null;
  if (question.show === "chart" && numeric.length) {
    const y = numeric.includes(question.y) ? question.y : numeric[0];
    const { times, lines } = pointsOf(flat, y);
    const place = h("div");
    fill(content, h("label.field.inline", {}, h("span.label", {}, "Field"), choice(numeric, y, (value) => change({ y: value }), "y")), place, hint(), more);
    const chart = drawChart(times, lines, "points", { ...common(content, question), zoom: zoomBy(change, question.step) });
    place.replaceWith(chart);
    return chart;
  }
  const columns = [
    { name: "time", cell: (/** @type {any} */ { row }) => h("time", { datetime: row.time, title: row.time }, showTime(row.time)), value: (/** @type {any} */ { row }) => row.time },
    { name: "series", cell: (/** @type {any} */ { row }) => row.series, value: (/** @type {any} */ { row }) => row.series },
    ...paths.slice(0, MOST_COLUMNS).map((path) => fieldColumn(path, flat)),
    { name: "id", cell: (/** @type {any} */ { row }) => h("code", {}, row.id), value: (/** @type {any} */ { row }) => row.id },
  ];
  fill(content, question.show === "chart" ? h("p.hint", {}, "These events have no number to draw.") : null,
    showTable(columns, flat, { caption: `Events of ${question.stream}`, open: ({ row }) => openEvent(stream, row), ...order(question) }), h("p.hint", {}, `Times: ${zoneName()}.`),
    paths.length > MOST_COLUMNS ? h("p.hint", {}, `The first ${MOST_COLUMNS} of ${plural(paths.length, "field")}; an event that is opened shows all.`) : null, more);
  return null;
}

/** @param {HTMLElement} content @param {Shown} shown @returns {{ destroy?: () => void } | null} the chart */
export function showAggregate(content, { rows, before, question, change }) {
  const stats = question.stat.split(",").filter(Boolean);
  const drawable = stats.filter((stat) => !TIMES.includes(stat));
  if (question.show === "table" || !drawable.length) {
    fill(content, question.show === "chart" ? h("p.hint", {}, "Times are not drawn; the table has them.") : null, showTable([
      { name: "start", cell: (row) => h("time", { datetime: row.start }, showTime(row.start)), value: (row) => row.start },
      ...(rows[0].group ? [{ name: question.by, cell: (/** @type {any} */ row) => groupName(row.group), value: (/** @type {any} */ row) => groupName(row.group) }] : []),
      ...stats.map((stat) => ({ name: stat, number: true, cell: (/** @type {any} */ row) => TIMES.includes(stat) && row[stat] ? showTime(row[stat]) : showNumber(row[stat]), value: (/** @type {any} */ row) => row[stat] })),
    ], rows, { caption: `Aggregate of ${question.stream}`, ...order(question) }));
    return null;
  }
  const step = stepOf(question);
  const all = rows.length ? linesOf(rows, drawable, step) : { times: [], lines: [] };
  const heat = question.form === "heat";
  let drawn = { times: all.times, lines: heat ? all.lines : all.lines.slice(0, MOST_LINES) };
  const earlier = before?.answer.body.aggregates ?? [];
  if (before && earlier.length) {
    const names = new Set(drawn.lines.map((line) => line.name));
    const other = linesOf(earlier, drawable, step);
    const matching = drawn.lines.length ? drawn.lines.map((line) => other.lines.find(({ name }) => name === line.name) ?? { name: line.name, values: other.times.map(() => null) })
      : other.lines.filter((line) => names.has(line.name) || !names.size).slice(0, MOST_LINES);
    drawn = overlay(drawn, { times: other.times, lines: matching }, before.distance, step);
  }
  const place = h("div");
  fill(content,
    h("div.tabs.small", { role: "group", "aria-label": "Form" }, FORMS.map(([name, title]) =>
      h("button.tab", { type: "button", "aria-pressed": String(question.form === name), onclick: () => change({ form: name }) }, title))),
    place, hint(),
    all.lines.length > MOST_LINES && !heat ? h("p.hint", {}, `The first ${MOST_LINES} of ${all.lines.length} lines are drawn; the table has all.`) : null,
    drawable.length < stats.length ? h("p.hint", {}, "Times are not drawn; the table has them.") : null);
  const options = { ...common(content, question), step, zoom: zoomBy(change, ""), stacked: drawable.length === 1 && ADDED.includes(drawable[0]) && !before };
  const chart = heat ? drawHeatmap(drawn.times, drawn.lines, options) : drawChart(drawn.times, drawn.lines, /** @type {any} */ (question.form), options);
  place.replaceWith(chart);
  return chart;
}

/** @param {HTMLElement} content @param {Question} question */
function common(content, question) {
  const width = content.clientWidth;
  return { width, height: width < 500 ? 280 : 360, hidden: question.hide, hide: (/** @type {string[]} */ names) => note({ hide: names }) };
}

/** The order of a table is in the address, and takes no new request. @param {Question} question */
function order(question) {
  return { sort: question.sort, sorted: (/** @type {string} */ sort) => note({ sort }) };
}

function hint() {
  return h("p.hint", {}, h("span.drag", {}, "Drag over the chart to look closer. "), `Times: ${zoneName()}.`);
}

/** A part of the range. @param {(changes: Partial<Question>) => void} change @param {string} step empty for one that suits the part */
function zoomBy(change, step) {
  return (/** @type {Date} */ start, /** @type {Date} */ end) => change({ from: start.toISOString(), to: end.toISOString(), step });
}

/** Where an answer came from. @param {any} body @returns {string[]} */
export function sourcesOf(body) {
  return [...new Set((body.sources ?? []).map((/** @type {any} */ source) => (source.rollup ? `rollup ${source.rollup}` : source.from)))];
}

/** What the answer lacks. @param {any} body @param {Question} question @param {(changes: Partial<Question>) => void} change */
export function showNotes(body, question, change) {
  const notes = [];
  for (const gap of body.gaps?.slice(0, 5) ?? []) notes.push(h("li", {}, `${showTime(gap.from)} to ${showTime(gap.to)} is missing here: ${gap.reason}.`));
  if (body.gaps?.length > 5) notes.push(h("li", {}, `And ${plural(body.gaps.length - 5, "more gap")}.`));
  if (body.next && question.ask === "aggregate") notes.push(h("li", {}, "The answer continues after the last step that is shown. ",
    h("button", { type: "button", onclick: () => change({ step: lengthText(stepOf(question) * 4) }) }, "Use a coarser step")));
  return notes.length ? h("ul.notes", {}, notes) : null;
}
