import { h, say } from "../dom.js";
import { showNumber } from "../format.js";
import { zone } from "../times.js";
import { drawLegend } from "./legend.js";
import { drawReadout } from "./readout.js";

/** @typedef {import("./points.js").Line} Line @typedef {"lines" | "bars" | "points"} Form */

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

// The distances of the marks beside counts, which have no halves.
const WHOLE = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((first) => first * 10 ** power)).flat();

/** @param {number} index */
export function colourOf(index) {
  return COLOURS[index % COLOURS.length];
}

/**
 * Draw lines, bars or points over time. Dragging chooses a range; so does Enter at its two ends, reached by the arrow keys.
 * @param {number[]} times seconds since 1970, ascending @param {Line[]} lines @param {Form} form
 * @param {{ width?: number, height?: number, step?: number, stacked?: boolean, zoom?: (start: Date, end: Date) => void, hidden?: string[],
 *   hide?: (names: string[]) => void }} [options]
 * @returns {HTMLElement & { destroy: () => void, plot: any }}
 */
export function drawChart(times, lines, form, options = {}) {
  const field = h("div.plot", { tabindex: 0, role: "group",
    "aria-label": `Chart of ${lines.map((line) => line.name).slice(0, 5).join(", ")}. Arrow keys read its values; Enter begins and ends a range to look closer at` });
  const hidden = new Set((options.hidden ?? []).filter((name) => lines.some((line) => line.name === name)));
  const own = lines.filter((line) => !line.earlier).length;
  // An earlier line has the colour of its own line.
  const colours = lines.map((line, index) => colourOf(line.earlier && own ? (index - own) % own : index));
  const legend = drawLegend(lines.map((line, index) => ({ name: line.name, colour: colours[index], earlier: line.earlier })), hidden, redraw);
  const place = /** @type {any} */ (h("div.chart", {}, field, legend));
  const readout = drawReadout();
  const stacked = form === "bars" && options.stacked;
  const plot = new uPlot(settings(), [times, ...visible()], field);
  plot.over.append(readout);
  /** The time under the cursor, as its number. */
  let at = -1;
  /** The time at which the keyboard began a range. */
  let begun = -1;

  /** What is drawn of each line; hidden lines have no numbers, and bars stand on the bars that are shown. */
  function visible() {
    const shown = lines.map((line) => (hidden.has(line.name) ? null : line.values));
    return stacked ? stack(shown) : shown.map((values) => values ?? times.map(() => null));
  }

  function redraw() {
    plot.setData([times, ...visible()]);
    options.hide?.([...hidden]);
  }

  function settings() {
    const style = getComputedStyle(document.documentElement);
    const [ink, grid] = ["--muted", "--line"].map((name) => style.getPropertyValue(name).trim());
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui" };
    const whole = lines.every((line) => line.values.every((value) => value === null || Number.isInteger(value)));
    // The last bar needs its room, too.
    const room = form === "bars" ? (options.step ?? 0) : 0;
    return {
      width: options.width || 600,
      height: options.height ?? 360,
      tzDate: (/** @type {number} */ seconds) => (zone() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
      cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7, show: form === "bars" ? false : undefined } },
      legend: { show: false },
      axes: [{ ...axis, values: AXIS_TIMES }, { ...axis, size: roomOf, incrs: whole ? WHOLE : undefined, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(markText) }],
      scales: { x: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => (low === high ? [low - 1, high + 1 + room] : [low, high + room]) },
        y: { range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => rangeOf(low, high, form) } },
      series: [{}, ...lines.map((line, index) => seriesOf(line, colours[index]))],
      hooks: { setSelect: [select], setCursor: [read] },
    };
  }

  /** @param {Line} line @param {string} colour */
  function seriesOf(line, colour) {
    const points = form === "points";
    return {
      label: "",
      stroke: colour,
      dash: line.earlier ? [5, 4] : undefined,
      fill: line.earlier ? undefined : stacked || points ? colour : form === "bars" ? `${colour}99` : lines.length === 1 ? `${colour}22` : undefined,
      width: line.earlier ? 1.25 : 1.75,
      paths: points ? paintDots : form === "bars" && !line.earlier ? uPlot.paths.bars({ size: [0.9, 60], align: 1 }) : undefined,
      points: { show: points ? false : isSparse(line.values) ? true : undefined, size: 4, fill: colour },
    };
  }

  /** @param {any} self */
  function select(self) {
    if (self.select.width < 4 || !options.zoom) return;
    const [start, end] = [self.select.left, self.select.left + self.select.width].map((x) => self.posToVal(x, "x"));
    self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    options.zoom(new Date(start * 1000), new Date(end * 1000));
  }

  /** @param {any} self */
  function read(self) {
    const { idx: closest, top, left } = self.cursor;
    if (closest === null || closest === undefined || left < 0) return readout.show(null);
    // A bar stands behind its time: in its second half the next time is closer.
    const idx = form === "bars" && closest > 0 && times[closest] > self.posToVal(left, "x") ? closest - 1 : closest;
    at = idx;
    const rows = [];
    const [first, end] = alike(idx);
    for (const [index, line] of lines.entries())
      for (let slot = first; slot < end; slot += 1) {
        const value = line.values[slot];
        if (value === null || value === undefined || hidden.has(line.name)) continue;
        rows.push({ name: line.name, colour: colours[index], value, y: self.valToPos(self.data[index + 1][slot], "y") });
      }
    return readout.show({ time: times[idx], rows, x: left, y: top, width: self.over.clientWidth });
  }

  /** Where the numbers of the same time begin and end. @param {number} index @returns {[number, number]} */
  function alike(index) {
    let [first, end] = [index, index + 1];
    while (first > 0 && times[first - 1] === times[index]) first -= 1;
    while (end < times.length && times[end] === times[index]) end += 1;
    return [first, end];
  }

  /** @param {number} index */
  function moveTo(index) {
    const [first, end] = at < 0 ? [0, 0] : alike(at);
    // Beyond all numbers of the present time.
    const next = index < at ? Math.min(index, first - 1) : index > at ? Math.max(index, end) : index;
    at = Math.min(Math.max(next, 0), times.length - 1);
    plot.setCursor({ left: plot.valToPos(times[at], "x") + (form === "bars" ? 1 : 0), top: plot.over.clientHeight / 2 });
    const text = read(plot);
    if (text) say(text);
    if (begun < 0) return;
    const [from, to] = [begun, at].sort((a, b) => a - b).map((number) => plot.valToPos(times[number], "x"));
    plot.setSelect({ left: from, width: to - from, top: 0, height: plot.over.clientHeight }, false);
  }

  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const far = Math.max(Math.round(times.length / 20), 2);
    const size = event.shiftKey ? far : 1;
    const next = { ArrowLeft: at < 0 ? times.length - 1 : at - size, ArrowRight: at < 0 ? 0 : at + size, PageUp: at - far, PageDown: at + far, Home: 0, End: times.length - 1 }[event.key];
    if (next !== undefined) moveTo(next);
    else if (event.key === "Enter" && at >= 0) mark();
    else if (event.key === "Escape" && begun >= 0) {
      begun = -1;
      plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  field.addEventListener("blur", () => plot.setCursor({ left: -10, top: -10 }));

  /** The first Enter begins a range, the second looks closer at it. */
  function mark() {
    if (begun < 0) {
      begun = at;
      say("The range begins here. Enter ends it.");
    } else if (times[begun] !== times[at] && options.zoom) {
      const [from, to] = [begun, at].sort((a, b) => a - b);
      options.zoom(new Date(times[from] * 1000), new Date(times[to] * 1000));
    }
  }

  const observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
  });
  observer.observe(field);
  place.destroy = () => {
    observer.disconnect();
    plot.destroy();
  };
  place.plot = plot;
  return place;
}

/** A number beside a chart, where there is no room for more than 15 digits. @param {number} value */
function markText(value) {
  return Math.abs(value) < 1e15 ? showNumber(value) : value.toExponential(3);
}

/** The pixels that the numbers beside a chart need. @param {any} _ @param {string[] | null} texts */
function roomOf(_, texts) {
  return Math.max(70, ...(texts ?? []).map((text) => Math.ceil(17 + 7.2 * text.length)));
}

/**
 * A square for each number. Circles take ten times as long, and of ten thousand points many share a pixel, which is painted once.
 * @param {any} plot @param {number} series @param {number} from @param {number} to
 */
function paintDots(plot, series, from, to) {
  const size = Math.round((to - from > 2000 ? 3 : 5) * (window.devicePixelRatio || 1));
  const dots = new Path2D();
  const [times, values] = [plot.data[0], plot.data[series]];
  let before = "";
  for (let index = from; index <= to; index += 1) {
    if (values[index] === null || values[index] === undefined) continue;
    const [x, y] = [Math.round(plot.valToPos(times[index], "x", true)), Math.round(plot.valToPos(values[index], "y", true))];
    const pixel = `${x},${y}`;
    if (pixel !== before) dots.rect(x - size / 2, y - size / 2, size, size);
    before = pixel;
  }
  return { stroke: null, fill: dots, clip: null, band: null, gaps: null, flags: 1 };
}

/** Lines one on top of the other: each with all that follow it, as the first is drawn first. @param {((number | null)[] | null)[]} lines */
function stack(lines) {
  /** @type {number[]} */
  let sums = [];
  const length = Math.max(0, ...lines.map((values) => values?.length ?? 0));
  const stacked = [...lines].reverse().map((values) => {
    if (!values) return Array.from({ length }, () => null);
    sums = values.map((value, index) => (sums[index] ?? 0) + (value ?? 0));
    return sums;
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
