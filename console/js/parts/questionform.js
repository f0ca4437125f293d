import { fill, h } from "../dom.js";
import { moveRange, stepOf } from "../question.js";
import { goAgain } from "../state.js";
import { STATISTICS } from "../statistics.js";
import { lengthText } from "../times.js";
import { conditionBuilder, conditionText, fieldNames, parseCondition } from "./conditions.js";
import { choice, field, severalOf, textInput } from "./controls.js";
import { rangePicker } from "./range.js";
import { recentMenu } from "./recent.js";
import { seriesField } from "./series.js";

const STEPS = ["1s", "10s", "1m", "5m", "15m", "1h", "3h", "6h", "12h", "1d", "1w", "1mo"];
const EVERY = [["", "Off"], ["5s", "every 5 s"], ["10s", "every 10 s"], ["30s", "every 30 s"], ["1m", "every minute"], ["5m", "every 5 minutes"]];
const BESIDE = [["", "Nothing"], ["range", "the range before"], ["1d", "the day before"], ["1w", "the week before"], ["4w", "four weeks before"]];

// Whether a narrow page shows all fields.
let wide = false;

/** @typedef {import("../question.js").Question} Question */

/** @param {Question} question @param {any} stream of /v1/streams @param {any[]} streams @param {(changes: Partial<Question>) => void} change */
export function questionForm(question, stream, streams, change) {
  const list = h("datalist", { id: "fields" });
  fieldNames(stream).then((names) => fill(list, names.map((name) => h("option", { value: name }))));
  const aggregate = question.ask === "aggregate";
  const form = h("form.question", { class: wide ? "all" : "", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); goAgain(); } },
    field("Stream", choice(streams.map((each) => each.stream), question.stream, (name) => change({ stream: name }), "stream")),
    rangePicker(question.from, question.to, (from, to) => change({ from, to, step: "" })),
    moves(question, change),
    seriesField(stream, question.series, (series) => change({ series }), { kind: second(question.series) }),
    field("Show", choice([["aggregate", "Statistics"], ["events", "Events"]], question.ask, (ask) => change({ ask }), "ask")),
    aggregate ? aggregateFields(question, change) : eventFields(question, change),
    h("div.field.wide", {}, h("span.label", {}, "Conditions"),
      conditionBuilder(list.id, question.where.map(parseCondition), (where) => change({ where: where.map(conditionText) }))),
    field("Refresh", choice(EVERY, question.every, (every) => change({ every }), "every"), second(question.every)),
    h("div.buttons.run", {}, allFields(), recentMenu(), h("button.primary", { title: "Ctrl + Enter" }, "Run")), list);
  return form;

  function allFields() {
    return h("button.quiet.allfields", { type: "button", "aria-expanded": String(wide), onclick: (/** @type {any} */ event) => {
      wide = form.classList.toggle("all");
      event.currentTarget.setAttribute("aria-expanded", String(wide));
      event.currentTarget.textContent = allText();
    } }, allText());
  }
}

function allText() {
  return wide ? "Fewer fields" : "All fields";
}

/** The class of a field that a narrow page shows only if it has a value, or if all are wanted. @param {unknown} value */
function second(value) {
  return value ? "" : "second";
}

/** Buttons that move the range. @param {Question} question @param {(changes: Partial<Question>) => void} change */
function moves(question, change) {
  /** @param {string} sign @param {string} text @param {string} shortcut @param {{ by?: number, times?: number }} by */
  const move = (sign, text, shortcut, by) => h("button", { type: "button", "aria-label": text, title: `${text} (${shortcut})`, "aria-keyshortcuts": shortcut,
    disabled: Number(by.by) > 0 && (!question.to || question.to === "now"), onclick: () => change({ ...moveRange(question, by), step: "" }) }, sign);
  return h("div.field.moves", {}, h("span.label", {}, "Move"), h("div.joined", { role: "group", "aria-label": "Move the range" },
    move("◂", "Earlier", "ArrowLeft", { by: -0.5 }), move("▸", "Later", "ArrowRight", { by: 0.5 }), move("−", "Twice the range", "-", { times: 2 }), move("+", "Half the range", "+", { times: 0.5 })));
}

/** @param {Question} question @param {(changes: Partial<Question>) => void} change */
function aggregateFields(question, change) {
  const steps = [["", `auto (${lengthText(stepOf({ ...question, step: "" }))})`], ...STEPS.map((step) => [step, step])];
  if (question.step && !STEPS.includes(question.step)) steps.push([question.step, question.step]);
  return [
    // Not a label, as a click on it would press the first box of the list.
    h("div.field", {}, h("span.label", {}, "Statistics"), severalOf(STATISTICS, question.stat, (stat) => change({ stat }))),
    field("of field", textInput(question.field, "none: count", "fields", (text) => change({ field: text }), "field"), second(question.field)),
    field("Step", choice(steps, question.step, (step) => change({ step }), "step"), second(question.step)),
    field("Group by", textInput(question.by, "nothing", "fields", (by) => change({ by, top: by ? question.top || "10" : "" }), "by"), second(question.by)),
    question.by ? field("First groups", choice([["5", "5"], ["10", "10"], ["20", "20"], ["50", "50"], ["", "all"]], question.top, (top) => change({ top }), "top")) : null,
    question.form === "heat" ? null : field("Beside", choice(BESIDE, question.beside, (beside) => change({ beside }), "beside"), second(question.beside)),
  ];
}

/** @param {Question} question @param {(changes: Partial<Question>) => void} change */
function eventFields(question, change) {
  return [
    field("Order", choice([["desc", "newest first"], ["asc", "oldest first"]], question.order, (order) => change({ order }), "order"), "second"),
    field("At most", choice(["100", "1000", "10000"], question.limit, (limit) => change({ limit }), "limit"), "second"),
    field("Fields", textInput(question.fields, "all", "fields", (fields) => change({ fields }), "fields"), second(question.fields)),
  ];
}
