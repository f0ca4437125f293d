import { h } from "../dom.js";
import { showNumber } from "../format.js";
import { zone } from "../times.js";

/**
 * A line of a chart: its name, and a number or null for each time.
 * @typedef {{ name: string, values: (number | null)[] }} Line
 * @typedef {"lines" | "bars" | "points"} Form
 */

const DAY = "\n{MMM} {D}";
// uPlot's templates of a time axis: from this distance of ticks on, the text, and what is added where the year, the day or the minute changes.
const AXIS_TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86400, "{MMM} {D}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
  [1, ":{ss}", `${DAY}, {YYYY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
  [0.001, ":{ss}.{fff}", `${DAY}, {YYYY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
];

/** Colours that are told apart in both themes, also by most colour-blind people (after Okabe and Ito). */
export const COLOURS = ["#1791a7", "#e08214", "#7b5cd6", "#3a9e4d", "#d6478c", "#8a7a1f", "#4a7fd6", "#c0392b", "#5b6770", "#9c6b3f"];

/** @param {number} index */
export function colourOf(index) {
  return COLOURS[index % COLOURS.length];
}

/**
 * Draw lines, bars or points over time. Dragging chooses a range.
 * @param {number[]} times seconds since 1970, ascending @param {Line[]} lines @param {Form} form
 * @param {{ height?: number, step?: number, stacked?: boolean, zoom?: (start: Date, end: Date) => void }} [options]
 * @returns {HTMLElement & { destroy: () => void }}
 */
export function drawChart(times, lines, form, options = {}) {
  const place = /** @type {any} */ (h("div.chart", { role: "img", "aria-label": `Chart of ${lines.map((line) => line.name).slice(0, 5).join(", ")}` }));
  const style = getComputedStyle(document.documentElement);
  const [ink, grid] = ["--muted", "--line"].map((name) => style.getPropertyValue(name).trim());
  const paths = form === "bars" ? uPlot.paths.bars({ size: [0.9, 60], align: 1 }) : undefined;
  const stacked = form === "bars" && options.stacked;
  const drawn = stacked ? stack(lines) : lines;
  // The last bar needs its room, too.
  const room = form === "bars" ? (options.step ?? 0) : 0;
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui" };
  /** @type {any} */
  const plot = new uPlot(
    {
      width: 600,
      height: options.height ?? 360,
      tzDate: (/** @type {number} */ seconds) => (zone() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 } },
      legend: { live: true },
      axes: [{ ...axis, values: AXIS_TIMES }, { ...axis, size: 70, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(showNumber) }],
      scales: { x: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [low, high + room] }, y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => rangeOf(low, high, form) } },
      series: [
        { label: "Time", value: (/** @type {any} */ _, /** @type {number} */ seconds) => (seconds === null ? "" : showAxisTime(seconds)) },
        ...lines.map((line, index) => ({
          label: line.name,
          stroke: colourOf(index),
          fill: stacked ? colourOf(index) : form === "bars" ? `${colourOf(index)}99` : lines.length === 1 && form === "lines" ? `${colourOf(index)}22` : undefined,
          width: form === "points" ? 0 : 1.75,
          paths: form === "points" ? () => null : paths,
          points: { show: form === "points" || isSparse(line.values) ? true : undefined, size: form === "points" ? 5 : 4, fill: colourOf(index) },
          value: (/** @type {any} */ _, /** @type {number | null} */ value) => (value === null ? "" : showNumber(value)),
        })),
      ],
      hooks: {
        setSelect: [
          (/** @type {any} */ self) => {
            if (self.select.width < 4 || !options.zoom) return;
            const [start, end] = [self.select.left, self.select.left + self.select.width].map((x) => self.posToVal(x, "x"));
            self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            options.zoom(new Date(start * 1000), new Date(end * 1000));
          },
        ],
      },
    },
    [times, ...drawn.map((line) => line.values)],
    place,
  );
  const observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
  });
  observer.observe(place);
  place.destroy = () => {
    observer.disconnect();
    plot.destroy();
  };
  place.plot = plot;
  return place;
}

/** @param {number} seconds */
function showAxisTime(seconds) {
  const date = new Date(seconds * 1000);
  return zone() === "utc" ? date.toISOString().slice(0, 19).replace("T", " ") : date.toLocaleString(undefined, { hourCycle: "h23" });
}

/** Lines one on top of the other: each with all that follow it, as the first is drawn first. @param {Line[]} lines @returns {Line[]} */
function stack(lines) {
  /** @type {number[]} */
  let sums = [];
  const stacked = [...lines].reverse().map(({ name, values }) => {
    sums = values.map((value, index) => (sums[index] ?? 0) + (value ?? 0));
    return { name, values: sums };
  });
  return stacked.reverse();
}

/** Whether a line has numbers without a neighbour, which only a point shows. @param {(number | null)[]} values */
function isSparse(values) {
  return values.length < 500 && values.some((value, index) => value !== null && (values[index - 1] ?? null) === null && (values[index + 1] ?? null) === null);
}

/** @param {number} low @param {number} high @param {Form} form @returns {[number, number]} */
function rangeOf(low, high, form) {
  if (low === null || low === undefined || low === Infinity) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * 0.08;
  return [form === "bars" || (low >= 0 && low < (high - low) * 2) ? Math.min(0, low) : low - pad, high + pad];
}

// Beyond so many steps a chart shows only those that have a row.
const MOST_STEPS = 5000;
// A step without events has none of these; every other statistic is unknown there.
const ZERO_WITHOUT_EVENTS = ["count", "sum"];

/**
 * Rows of an aggregate as the times and lines of a chart: a line per group and statistic, with every step from the first row to the last.
 * @param {any[]} rows @param {string[]} stats @param {number} step seconds @returns {{ times: number[], lines: Line[] }}
 */
export function linesOf(rows, stats, step) {
  // The first step may be cut at the beginning of the range.
  const starts = rows.map((row) => alignTime(Date.parse(row.start) / 1000, step));
  const [first, last] = [Math.min(...starts), Math.max(...starts)];
  const count = Math.round((last - first) / step) + 1;
  const times = count <= MOST_STEPS ? Array.from({ length: count }, (_, number) => first + number * step) : [...new Set(starts)].sort((a, b) => a - b);
  const index = new Map(times.map((time, number) => [time, number]));
  /** @type {Map<string, Line>} */
  const lines = new Map();
  rows.forEach((row, number) => {
    const group = groupName(row.group);
    for (const stat of stats) {
      const name = group ? (stats.length > 1 ? `${group} · ${stat}` : group) : stat;
      let line = lines.get(name);
      if (!line) lines.set(name, (line = { name, values: times.map(() => (ZERO_WITHOUT_EVENTS.includes(stat) ? 0 : null)) }));
      line.values[index.get(starts[number]) ?? 0] = typeof row[stat] === "number" ? row[stat] : null;
    }
  });
  return { times, lines: [...lines.values()] };
}

/** The beginning of the step that holds a time: steps count from 1970, whole weeks from Mondays. @param {number} seconds @param {number} step */
export function alignTime(seconds, step) {
  const origin = step % 604800 === 0 ? 4 * 86400 : 0;
  return Math.floor((seconds - origin) / step) * step + origin;
}

/** @param {Record<string, unknown> | null | undefined} group @returns {string} */
export function groupName(group) {
  if (!group) return "";
  return Object.values(group).map((value) => (value === null || value === undefined ? "(none)" : String(value))).join(" · ");
}
