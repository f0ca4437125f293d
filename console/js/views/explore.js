// A question about a stream: events or an aggregate of a range, as a chart, a table or JSON.

import { address, get, getText, streamPath } from "../api.js";
import { fill, h, say } from "../dom.js";
import { flatten, plural, showNumber } from "../format.js";
import { drawChart, groupName, linesOf } from "../parts/chart.js";
import { conditionBuilder, conditionParameters, conditionText, fieldNames, parseCondition } from "../parts/conditions.js";
import { copyMenu } from "../parts/copy.js";
import { showExplain } from "../parts/explain.js";
import { drawHeatmap } from "../parts/heatmap.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { rangePicker } from "../parts/range.js";
import { seriesField } from "../parts/series.js";
import { fieldColumn, showTable } from "../parts/table.js";
import { go, goAgain } from "../state.js";
import { instantOf, lengthText, secondsOf, showTime, stepFor } from "../times.js";
import { openEvent } from "./event.js";

const STATS = ["count", "sum", "avg", "min", "max", "first", "last", "p50", "p90", "p99"];
const STEPS = ["1s", "10s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d", "1w"];
const MOST_POINTS = 10000;
// Statistics whose groups add up, so that their bars are stacked.
const ADDED = ["count", "sum"];

/**
 * The question, as it stands in the address.
 * @typedef {{ stream: string, from: string, to: string, series: string, where: string[], ask: string, order: string, limit: string,
 *   fields: string, step: string, stat: string, field: string, by: string, top: string, show: string, form: string, y: string }} Question
 */

/** @param {URLSearchParams} values @param {any[]} streams @returns {Question} */
export function readQuestion(values, streams) {
  const text = (/** @type {string} */ name, /** @type {string} */ fallback = "") => values.get(name) ?? fallback;
  return {
    stream: text("stream", streams[0]?.stream ?? ""), from: text("from", "-24h"), to: text("to"), series: text("series"),
    where: values.getAll("where"), ask: text("ask", "aggregate"), order: text("order", "desc"), limit: text("limit", "100"),
    fields: text("fields"), step: text("step"), stat: text("stat", "count"), field: text("field"), by: text("by"), top: text("top"),
    show: text("show", "chart"), form: text("form", "lines"), y: text("y"),
  };
}

/** The step in seconds: the chosen one, or one that suits the range. @param {Question} question */
export function stepOf(question) {
  if (question.step) return secondsOf(question.step) ?? 3600;
  const [start, end] = [instantOf(question.from), question.to ? instantOf(question.to) : new Date()];
  return stepFor(start && end ? Math.max((end.getTime() - start.getTime()) / 1000, 1) : 86400);
}

/** The request of a question. @param {Question} question @returns {{ path: string, parameters: import("../api.js").Parameters }} */
export function requestOf(question) {
  const series = question.series.split(",").map((name) => name.trim()).filter(Boolean);
  const common = { from: question.from, to: question.to, series, ...conditionParameters(question.where.map(parseCondition)) };
  if (question.ask === "events")
    return { path: streamPath(question.stream, "events"),
      parameters: { ...common, order: question.order === "desc" ? "" : question.order, limit: question.limit, fields: question.fields } };
  return { path: streamPath(question.stream, "aggregate"),
    parameters: { ...common, step: lengthText(stepOf(question)), stat: question.stat, field: question.field, by: question.by, top: question.top,
      limit: String(MOST_POINTS) } };
}

/** @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams @param {AbortSignal} signal */
export function showExplore(place, values, streams, signal) {
  const question = readQuestion(values, streams);
  const stream = streams.find((each) => each.stream === question.stream);
  const result = h("section.result", { "aria-label": "Answer" });
  /** @type {{ destroy?: () => void } | null} */
  let chart = null;
  signal.addEventListener("abort", () => chart?.destroy?.());

  /** @param {Partial<Question>} changes */
  function change(changes) {
    const next = { ...question, ...changes };
    if ("stream" in changes) Object.assign(next, { series: "", where: [], field: "", by: "", y: "", fields: "" });
    go("explore", /** @type {any} */ (next));
  }

  fill(place, questionForm(question, streams, change), result);
  ask();

  async function ask() {
    fill(result, showBusy());
    const { path, parameters } = requestOf(question);
    try {
      const answer = question.show === "explain" ? await get(path, { ...parameters, explain: true }, signal) : await get(path, parameters, signal);
      if (!signal.aborted) show(answer, path, parameters);
    } catch (error) {
      if (/** @type {any} */ (error).name !== "AbortError" && !signal.aborted) fill(result, showHeader(null, path, parameters), showProblem(error, ask));
    }
  }

  /** @param {import("../api.js").Answer} answer @param {string} path @param {import("../api.js").Parameters} parameters */
  function show(answer, path, parameters) {
    chart?.destroy?.();
    chart = null;
    const rows = answer.body.events ?? answer.body.aggregates ?? [];
    say(question.show === "explain" ? "The plan is shown." : `${plural(rows.length, "row")} shown.`);
    const content = h("div.content");
    fill(result, showHeader(answer, path, parameters), showNotes(answer.body, question, change), content);
    if (question.show === "explain") fill(content, showExplain(answer.body));
    else if (question.show === "json") fill(content, h("pre.json", { tabindex: 0 }, JSON.stringify(answer.body, null, 2).slice(0, 400000)));
    else if (!rows.length) fill(content, showEmpty("Nothing in this range", "Choose a longer range, or remove a condition."));
    else if (question.ask === "events") showEvents(content, rows, answer.body.next);
    else showAggregate(content, rows);
  }

  /** @param {import("../api.js").Answer | null} answer @param {string} path @param {import("../api.js").Parameters} parameters */
  function showHeader(answer, path, parameters) {
    const tabs = [["chart", "Chart"], ["table", "Table"], ["json", "JSON"], ["explain", "Explain"]];
    return h("div.resultbar", {},
      h("div.tabs", { role: "tablist" }, tabs.map(([name, title]) =>
        h("button.tab", { type: "button", role: "tab", "aria-selected": String(question.show === name), onclick: () => change({ show: name }) }, title))),
      answer ? h("span.cost", {}, costText(answer)) : null,
      copyMenu(address(path, parameters), () => getText(path, { ...parameters, format: "csv" }), `${question.stream}.csv`));
  }

  /** @param {HTMLElement} content @param {any[]} rows @param {string | null} next */
  function showEvents(content, rows, next) {
    const flat = rows.map((row) => ({ row, flat: flatten(row.data) }));
    const paths = [...new Set(flat.flatMap((row) => Object.keys(row.flat)))];
    const numeric = paths.filter((path) => flat.some((row) => typeof row.flat[path] === "number"));
    if (question.show === "chart" && numeric.length) {
      const y = numeric.includes(question.y) ? question.y : numeric[0];
      const { times, lines } = pointsOf(flat, y);
      chart = drawChart(times, lines, "points", { zoom });
      fill(content, h("label.field.inline", {}, h("span.label", {}, "Field"),
        choice(numeric, y, (value) => change({ y: value }))), /** @type {any} */ (chart));
      return;
    }
    const columns = [
      { name: "time", cell: (/** @type {any} */ row) => h("time", { datetime: row.row.time, title: row.row.time }, showTime(row.row.time)) },
      { name: "series", cell: (/** @type {any} */ row) => row.row.series },
      ...paths.slice(0, 40).map((path) => fieldColumn(path, flat)),
      { name: "id", cell: (/** @type {any} */ row) => h("code", {}, row.row.id) },
    ];
    const more = next ? h("p.more", {}, `These are the first ${plural(rows.length, "event")}. `,
      Number(question.limit) < MOST_POINTS ? h("button", { type: "button", onclick: () => change({ limit: String(Math.min(Number(question.limit) * 10, MOST_POINTS)) }) },
        "Show more") : "Choose a shorter range for the others.") : null;
    fill(content, showTable(columns, flat, { caption: `Events of ${question.stream}`, open: (row) => openEvent(stream, row.row) }), more);
  }

  /** @param {HTMLElement} content @param {any[]} rows */
  function showAggregate(content, rows) {
    const stats = question.stat.split(",").filter(Boolean);
    if (question.show === "table") {
      fill(content, showTable([
        { name: "start", cell: (row) => h("time", { datetime: row.start }, showTime(row.start)) },
        ...(rows[0].group ? [{ name: question.by, cell: (/** @type {any} */ row) => groupName(row.group) }] : []),
        ...stats.map((stat) => ({ name: stat, number: true, cell: (/** @type {any} */ row) => showNumber(row[stat]) })),
      ], rows, { caption: `Aggregate of ${question.stream}` }));
      return;
    }
    const { times, lines } = linesOf(rows, stats, stepOf(question));
    const most = 20;
    const drawn = question.form === "heat" ? lines : lines.slice(0, most);
    const options = { step: stepOf(question), zoom, stacked: stats.every((stat) => ADDED.includes(stat)) && stats.length === 1 };
    chart = question.form === "heat" ? drawHeatmap(times, drawn, options) : drawChart(times, drawn, /** @type {any} */ (question.form), options);
    fill(content,
      h("div.tabs.small", { role: "group", "aria-label": "Form" }, [["lines", "Lines"], ["bars", "Bars"], ["points", "Points"], ["heat", "Heat map"]].map(([name, title]) =>
        h("button.tab", { type: "button", "aria-pressed": String(question.form === name), onclick: () => change({ form: name }) }, title))),
      /** @type {any} */ (chart),
      h("p.hint", {}, question.form === "heat" ? "" : "Drag over the chart to look closer.",
        lines.length > drawn.length ? ` The first ${most} of ${lines.length} lines are drawn; the table has all.` : ""));
  }

  /** A part of the range, with a step that suits it. @param {Date} start @param {Date} end */
  function zoom(start, end) {
    const step = question.ask === "events" ? question.step : "";
    change({ from: start.toISOString(), to: end.toISOString(), step });
  }
}

/** @param {{ row: any, flat: Record<string, unknown> }[]} flat @param {string} path */
function pointsOf(flat, path) {
  const points = flat.filter((row) => typeof row.flat[path] === "number");
  const times = [...new Set(points.map((row) => row.row.time))].sort();
  const index = new Map(times.map((time, number) => [time, number]));
  /** @type {Map<string, import("../parts/chart.js").Line>} */
  const lines = new Map();
  for (const { row, flat: values } of points) {
    const name = lines.has(row.series) || lines.size < 10 ? row.series : "other series";
    let line = lines.get(name);
    if (!line) lines.set(name, (line = { name, values: times.map(() => null) }));
    line.values[index.get(row.time) ?? 0] = /** @type {number} */ (values[path]);
  }
  return { times: times.map((time) => Date.parse(time) / 1000), lines: [...lines.values()] };
}

/** @param {import("../api.js").Answer} answer */
function costText(answer) {
  const parts = [`${Math.round(answer.milliseconds)} ms`];
  if (answer.units !== null) parts.unshift(`${showNumber(answer.units)} read units`);
  if (answer.requests !== null) parts.splice(1, 0, plural(answer.requests, "request"));
  return parts.join(" · ");
}

/** What the answer lacks, and where it came from. @param {any} body @param {Question} question @param {(changes: Partial<Question>) => void} change */
function showNotes(body, question, change) {
  const notes = [];
  for (const gap of body.gaps?.slice(0, 5) ?? []) notes.push(h("li", {}, `${showTime(gap.from)} to ${showTime(gap.to)} could not be read: ${gap.reason}.`));
  if (body.gaps?.length > 5) notes.push(h("li", {}, `And ${plural(body.gaps.length - 5, "more gap")}.`));
  if (body.next && question.ask === "aggregate") notes.push(h("li", {}, "The answer goes on behind the last step shown. ",
    h("button", { type: "button", onclick: () => change({ step: lengthText(stepOf(question) * 4) }) }, "Use a coarser step")));
  const from = [...new Set((body.sources ?? []).map((/** @type {any} */ source) => source.rollup ? `rollup ${source.rollup}` : source.from))];
  if (from.length) notes.push(h("li.quietly", {}, `Read from: ${from.join(", ")}.`));
  return notes.length ? h("ul.notes", {}, notes) : null;
}

/** @param {Question} question @param {any[]} streams @param {(changes: Partial<Question>) => void} change */
function questionForm(question, streams, change) {
  const list = h("datalist", { id: "fields" });
  const stream = streams.find((each) => each.stream === question.stream);
  fieldNames(stream).then((names) => fill(list, names.map((name) => h("option", { value: name }))));
  const aggregate = question.ask === "aggregate";
  return h("form.question", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); goAgain(); } },
    field("Stream", choice(streams.map((stream) => stream.stream), question.stream, (stream) => change({ stream }))),
    rangePicker(question.from, question.to, (from, to) => change({ from, to, step: "" })),
    seriesField(stream, question.series, (series) => change({ series }), { label: "Series" }),
    field("Show", choice([["aggregate", "Statistics"], ["events", "Events"]], question.ask, (ask) => change({ ask }))),
    aggregate
      ? [
          field("Statistics", statsChoice(question.stat, (stat) => change({ stat }))),
          field("of field", textInput(question.field, "none: count", "fields", (text) => change({ field: text, stat: text && question.stat === "count" ? "avg" : question.stat }))),
          field("Step", choice([["", `auto (${lengthText(stepOf({ ...question, step: "" }))})`], ...STEPS.map((step) => [step, step])], question.step, (step) => change({ step }))),
          field("Group by", textInput(question.by, "nothing", "fields", (by) => change({ by, top: by ? question.top || "10" : "" }))),
          question.by ? field("First groups", choice([["5", "5"], ["10", "10"], ["20", "20"], ["50", "50"], ["", "all"]], question.top, (top) => change({ top }))) : null,
        ]
      : [
          field("Order", choice([["desc", "newest first"], ["asc", "oldest first"]], question.order, (order) => change({ order }))),
          field("At most", choice(["100", "1000", "10000"], question.limit, (limit) => change({ limit }))),
        ],
    field("Conditions", conditionBuilder("fields", question.where.map(parseCondition), (conditions) => change({ where: conditions.map(conditionText) })), "wide"),
    h("button.primary.run", {}, "Run"),
    list);
}

/** @param {string} label @param {Node} control @param {string} [kind] */
function field(label, control, kind = "") {
  return h("label.field", { class: kind }, h("span.label", {}, label), control);
}

/** @param {(string | string[])[]} options @param {string} value @param {(value: string) => void} changed */
function choice(options, value, changed) {
  const select = h("select", { onchange: (/** @type {any} */ event) => changed(event.target.value) },
    options.map((option) => (Array.isArray(option) ? h("option", { value: option[0] }, option[1]) : h("option", { value: option }, option))));
  /** @type {HTMLSelectElement} */ (select).value = value;
  return select;
}

/** @param {string} value @param {string} placeholder @param {string} list @param {(text: string) => void} changed */
function textInput(value, placeholder, list, changed) {
  return h("input", { value, placeholder, list, spellcheck: "false", autocomplete: "off", onchange: (/** @type {any} */ event) => changed(event.target.value.trim()) });
}

/** @param {string} value @param {(stats: string) => void} changed */
function statsChoice(value, changed) {
  const chosen = new Set(value.split(","));
  const options = STATS.map((stat) => {
    const box = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", value: stat, onchange: () => {
      if (box.checked) chosen.add(stat);
      else chosen.delete(stat);
      changed(STATS.filter((name) => chosen.has(name)).join(",") || "count");
    } }));
    box.checked = chosen.has(stat);
    return h("label.check", {}, box, stat);
  });
  return h("details.choice", {}, h("summary", {}, value.split(",").join(", ")), h("div.panel", {}, options));
}
