// A question about a stream, as it stands in the address, and its request.

import { streamPath } from "./api.js";
import { conditionParameters, parseCondition } from "./parts/conditions.js";
import { rangeText } from "./parts/range.js";
import { instantOf, isCalendar, isDay, lengthText, moveTime, secondsOf, stepFor, zoneOfRequests } from "./times.js";

export const MOST_POINTS = 10000;

/**
 * @typedef {{ stream: string, from: string, to: string, series: string, where: string[], ask: string, order: string, limit: string,
 *   fields: string, step: string, stat: string, field: string, by: string, top: string, show: string, form: string, y: string,
 *   every: string, beside: string, sort: string, hide: string[] }} Question
 */

/** @param {URLSearchParams} values @param {any[]} streams @returns {Question} */
export function readQuestion(values, streams) {
  const text = (/** @type {string} */ name, /** @type {string} */ fallback = "") => values.get(name) ?? fallback;
  return {
    stream: text("stream", streams[0]?.stream ?? ""), from: text("from", "-24h"), to: text("to"), series: text("series"),
    where: values.getAll("where"), ask: text("ask", "aggregate"), order: text("order", "desc"), limit: text("limit", "100"),
    fields: text("fields"), step: text("step"), stat: text("stat", "count"), field: text("field"), by: text("by"), top: text("top"),
    show: text("show", "chart"), form: text("form", "lines"), y: text("y"),
    every: text("every"), beside: text("beside"), sort: text("sort"), hide: values.getAll("hide"),
  };
}

/**
 * A question with changes, without what belongs to the former stream: the API refuses a statistic without its field, and `top` without `by`.
 * @param {Question} question @param {Partial<Question>} changes @returns {Question}
 */
export function changeQuestion(question, changes) {
  const next = { ...question, ...changes };
  if ("stream" in changes) Object.assign(next, { series: "", where: [], field: "", by: "", top: "", y: "", fields: "" });
  if ("stream" in changes || "ask" in changes) Object.assign(next, { sort: "", hide: [] });
  if (question.field && !next.field) next.stat = "count";
  else if (!question.field && next.field && next.stat === "count") next.stat = "avg";
  return next;
}

/** The range of a question as instants; its end is now if it has none. @param {{ from: string, to: string }} question @returns {[Date, Date]} */
export function instantsOf(question) {
  const end = (question.to ? instantOf(question.to) : null) ?? new Date();
  return [instantOf(question.from) ?? new Date(end.getTime() - 86400000), end];
}

/** The step in seconds: the chosen one, or one that suits the range. @param {Question} question */
export function stepOf(question) {
  if (question.step) return secondsOf(question.step) ?? 3600;
  const [start, end] = instantsOf(question);
  return stepFor(Math.max((end.getTime() - start.getTime()) / 1000, 1));
}

/** The request of a question. @param {Question} question @returns {{ path: string, parameters: import("./api.js").Parameters }} */
export function requestOf(question) {
  const series = question.series.split(",").map((name) => name.trim()).filter(Boolean);
  // The API answers in the zone, too. The console shows instants in any zone, so it names the zone only where days depend on it.
  const days = isDay(question.from) || isDay(question.to) || (question.ask !== "events" && isCalendar(stepOf(question)));
  const common = { from: question.from, to: question.to, tz: days ? zoneOfRequests() : "", series, ...conditionParameters(question.where.map(parseCondition)) };
  if (question.ask === "events")
    return { path: streamPath(question.stream, "events"),
      parameters: { ...common, order: question.order === "desc" ? "" : question.order, limit: question.limit, fields: question.fields } };
  const [start, end] = instantsOf(question);
  // A range shorter than a step may hold no whole step.
  const align = end.getTime() - start.getTime() >= stepOf(question) * 1000 ? "true" : "";
  return { path: streamPath(question.stream, "aggregate"),
    parameters: { ...common, step: lengthText(stepOf(question)), align, stat: question.stat, field: question.field, by: question.by, top: question.top,
      limit: String(MOST_POINTS) } };
}

/** How far back the earlier range of a comparison lies, in whole steps of seconds; 0 without a comparison. @param {Question} question */
export function distanceOf(question) {
  if (!question.beside || question.ask === "events") return 0;
  const [start, end] = instantsOf(question);
  const seconds = question.beside === "range" ? (end.getTime() - start.getTime()) / 1000 : (secondsOf(question.beside) ?? 0);
  const step = stepOf(question);
  return Math.max(Math.round(seconds / step), 1) * step;
}

/** The same question about an earlier range. @param {Question} question @param {number} seconds @returns {Question} */
export function earlierOf(question, seconds) {
  const step = stepOf(question);
  const [from, to] = instantsOf(question).map((instant) => new Date(moveTime(instant.getTime() / 1000, -seconds, step) * 1000).toISOString());
  return { ...question, from, to, step: lengthText(step) };
}

/**
 * The range moved by a share of its length, or made longer around its middle. A range that reaches the present follows it again.
 * @param {{ from: string, to: string }} question @param {{ by?: number, times?: number }} change @param {Date} [now] @returns {{ from: string, to: string }}
 */
export function moveRange(question, { by = 0, times = 1 }, now = new Date()) {
  const [start, end] = instantsOf(question).map((instant) => instant.getTime());
  const length = end - start;
  const middle = start + length / 2 + by * length;
  // The API takes no time before 1970.
  const [from, to] = [Math.max(middle - (length * times) / 2, 0), middle + (length * times) / 2];
  if (to < now.getTime() - 1000) return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  // Beyond now there is nothing but what senders with a wrong clock sent.
  return { from: `-${lengthText(Math.max(Math.round((length * times) / 1000), 1))}`, to: "" };
}

/** A question in a few words. @param {Question} question */
export function questionText(question) {
  const conditions = question.where.map(parseCondition).map(({ field, operator, value }) => `${field} ${operator === "eq" ? "=" : operator} ${value}`);
  const what = question.ask === "events" ? "events" : [question.stat, question.field && `of ${question.field}`, question.by && `by ${question.by}`].filter(Boolean).join(" ");
  return [question.stream, what, rangeText(question.from, question.to), question.series, ...conditions].filter(Boolean).join(", ");
}
