// Answers of the API as the times and lines of a chart.

import { isNumber } from "../format.js";
import { ADDED } from "../statistics.js";
import { alignTime, instantOfWall, isCalendar, moveTime, moveWall, wallOf } from "../times.js";

/**
 * A line of a chart: its name, and a number or null for each time.
 * @typedef {{ name: string, values: (number | null)[], earlier?: boolean }} Line
 * @typedef {{ times: number[], lines: Line[] }} Points times in seconds since 1970, ascending
 */

// Beyond so many steps a chart shows only those that have a row.
const MOST_STEPS = 5000;
// Of so many series each has a line of its own, and the others share one.
const MOST_SERIES = 10;

/**
 * Rows of an aggregate: a line per group and statistic, with every step from the first row to the last.
 * @param {any[]} rows @param {string[]} stats @param {number} step seconds @returns {Points}
 */
export function linesOf(rows, stats, step) {
  // Days of the zone are counted on its clocks: some have 23 or 25 hours.
  const [shown, instant] = isCalendar(step) ? [wallOf, instantOfWall] : [same, same];
  // The first step may be cut at the beginning of the range.
  const starts = rows.map((row) => alignTime(shown(Date.parse(row.start) / 1000), step));
  const [first, last] = starts.reduce(([low, high], start) => [Math.min(low, start), Math.max(high, start)], [Infinity, -Infinity]);
  const count = Math.round((last - first) / step) + 1;
  const times = count <= MOST_STEPS ? Array.from({ length: count }, (_, number) => moveWall(first, number * step, step)) : [...new Set(starts)].sort((a, b) => a - b);
  const index = new Map(times.map((time, number) => [time, number]));
  /** @type {Map<string, Line>} */
  const lines = new Map();
  const shared = sharedNames(rows);
  rows.forEach((row, number) => {
    const plain = groupName(row.group);
    const group = shared.has(plain) ? groupName(row.group, true) : plain;
    for (const stat of stats) {
      const name = group ? (stats.length > 1 ? `${group} · ${stat}` : group) : stat;
      let line = lines.get(name);
      if (!line) lines.set(name, (line = { name, values: times.map(() => (ADDED.includes(stat) ? 0 : null)) }));
      line.values[index.get(starts[number]) ?? 0] = isNumber(row[stat]) ? Number(row[stat]) : null;
    }
  });
  return { times: times.map(instant), lines: [...lines.values()] };
}

/** @param {number} seconds */
function same(seconds) {
  return seconds;
}

/** The names that groups of different kinds share, such as 1 and "1". @param {any[]} rows @returns {Set<string>} */
function sharedNames(rows) {
  const [kinds, shared] = [new Map(), new Set()];
  for (const { group } of rows) {
    const name = groupName(group);
    const kind = Object.values(group ?? {}).map((value) => typeof value).join();
    if ((kinds.get(name) ?? kind) !== kind) shared.add(name);
    kinds.set(name, kind);
  }
  return shared;
}

/** A number of each event: a line per series. @param {{ row: any, flat: Record<string, unknown> }[]} flat @param {string} path @returns {Points} */
export function pointsOf(flat, path) {
  const points = flat.filter((row) => isNumber(row.flat[path]));
  // Each event has a time of its own in the chart: of events at the same time none hides another.
  const ordered = [...points].sort((a, b) => Date.parse(a.row.time) - Date.parse(b.row.time) || (a.row.time < b.row.time ? -1 : Number(a.row.time > b.row.time)));
  const index = new Map(ordered.map((point, number) => [point, number]));
  /** @type {Map<string, Line>} */
  const lines = new Map();
  for (const point of points) {
    const { series } = point.row;
    const name = lines.has(series) || lines.size < MOST_SERIES ? series : "other series";
    let line = lines.get(name);
    if (!line) lines.set(name, (line = { name, values: points.map(() => null) }));
    line.values[index.get(point) ?? 0] = Number(point.flat[path]);
  }
  return { times: ordered.map(({ row }) => Date.parse(row.time) / 1000), lines: [...lines.values()] };
}

/**
 * Points with those of an earlier range laid over them, moved forward by the distance of the ranges.
 * @param {Points} now @param {Points} earlier @param {number} distance seconds @param {number} step seconds @returns {Points}
 */
export function overlay(now, earlier, distance, step) {
  const moved = earlier.times.map((time) => moveTime(time, distance, step));
  const times = [...new Set([...now.times, ...moved])].sort((a, b) => a - b);
  /** @param {number[]} own @param {Line} line */
  const spread = (own, line) => {
    const values = new Map(own.map((time, number) => [time, line.values[number]]));
    return times.map((time) => values.get(time) ?? null);
  };
  return { times, lines: [...now.lines.map((line) => ({ ...line, values: spread(now.times, line) })),
    ...earlier.lines.map((line) => ({ name: `${line.name}, earlier`, earlier: true, values: spread(moved, line) }))] };
}

/** @param {Record<string, unknown> | null | undefined} group @param {boolean} [quoted] texts in quotation marks @returns {string} */
export function groupName(group, quoted = false) {
  if (!group) return "";
  return Object.values(group).map((value) => (value === null || value === undefined ? "(none)" : quoted && typeof value === "string" ? `“${value}”` : String(value))).join(" · ");
}
