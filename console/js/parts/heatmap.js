import { h, say } from "../dom.js";
import { showNumber } from "../format.js";
import { showMinute } from "../times.js";

const ROW = 22;
const LABEL = 150;
const FOOT = 26;

/**
 * A heat map: a row per line, a column per time, the colour by the number. Dragging chooses a range; so does Enter in its first and
 * its last column, reached by the arrow keys.
 * @param {number[]} times seconds since 1970 @param {import("./chart.js").Line[]} lines
 * @param {{ step?: number, zoom?: (start: Date, end: Date) => void }} [options]
 * @returns {HTMLElement & { destroy: () => void }}
 */
export function drawHeatmap(times, lines, options = {}) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", "aria-label": `Heat map of ${lines.length} groups` }));
  const tip = h("div.tip", { hidden: true });
  const selection = h("div.selection", { hidden: true });
  const scale = h("p.hint.scale", {});
  const field = h("div.plot", { tabindex: 0, role: "group",
    "aria-label": `Heat map of ${lines.length} groups. Arrow keys read its values; Enter begins and ends a range to look closer at` }, canvas, selection, tip);
  const place = /** @type {any} */ (h("div.chart.heat", {}, field, scale));
  const shown = lines.slice(0, 60);
  const [least, most] = scaleOf(shown);
  scale.append(`${showNumber(least)} `, h("span.ramp"), ` ${showNumber(most)}`);
  const step = options.step ?? (times.length > 1 ? Math.min(...times.slice(1).map((time, index) => time - times[index])) : 60);
  const [begin, end] = [times[0], times[times.length - 1] + step];
  let width = 600;

  /** @param {number} time */
  const x = (time) => LABEL + ((time - begin) / (end - begin)) * (width - LABEL);

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const height = shown.length * ROW + FOOT;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(document.documentElement);
    const [ink, accent] = ["--muted", "--accent"].map((name) => style.getPropertyValue(name).trim());
    context.scale(ratio, ratio);
    context.font = "12px system-ui";
    context.textBaseline = "middle";
    shown.forEach((line, row) => {
      context.globalAlpha = 1;
      context.fillStyle = ink;
      context.fillText(clip(line.name), 4, row * ROW + ROW / 2);
      context.fillStyle = accent;
      line.values.forEach((value, column) => {
        if (value === null) return;
        context.globalAlpha = 0.08 + 0.92 * Math.sqrt((value - least) / (most - least || 1));
        context.fillRect(x(times[column]), row * ROW + 1, Math.max(x(times[column] + step) - x(times[column]) - 1, 1), ROW - 2);
      });
    });
    context.globalAlpha = 1;
    context.fillStyle = ink;
    const marks = Math.max(2, Math.floor((width - LABEL) / 140));
    for (let mark = 0; mark < marks; mark += 1) {
      // At the left edge of a column: there is no time between two of them.
      const time = begin + Math.round(((end - begin) * mark) / marks / step) * step;
      context.fillText(showMinute(time * 1000), x(time), shown.length * ROW + FOOT / 2);
    }
  }

  /** @param {number} left @param {number} top pixels @param {string} text */
  function showTip(left, top, text) {
    tip.hidden = false;
    tip.textContent = text;
    tip.style.setProperty("--x", `${Math.min(left + 12, width - 180)}px`);
    tip.style.setProperty("--y", `${top + 14}px`);
  }

  /** @param {number} left @param {number} right pixels */
  function showRange(left, right) {
    selection.hidden = false;
    selection.style.setProperty("--x", `${left}px`);
    selection.style.setProperty("--width", `${right - left}px`);
  }

  canvas.addEventListener("mousemove", (event) => {
    const row = Math.floor(event.offsetY / ROW);
    const time = begin + ((event.offsetX - LABEL) / (width - LABEL)) * (end - begin);
    const column = times.findIndex((start) => time >= start && time < start + step);
    const value = shown[row]?.values[column];
    if (value === undefined || value === null) tip.hidden = true;
    else showTip(event.offsetX, event.offsetY, describe(row, column));
  });

  /** @param {number} row @param {number} column */
  function describe(row, column) {
    const value = shown[row].values[column];
    return `${shown[row].name}, ${showMinute(times[column] * 1000)}: ${value === null || value === undefined ? "nothing" : showNumber(value)}`;
  }

  /** Where the arrow keys are; the column is -1 before the first key. */
  const cell = { column: -1, row: 0 };
  /** The column in which the keyboard began a range. */
  let marked = -1;

  /** @param {number} column @param {number} row */
  function moveTo(column, row) {
    cell.column = Math.min(Math.max(column, 0), times.length - 1);
    cell.row = Math.min(Math.max(row, 0), shown.length - 1);
    const text = describe(cell.row, cell.column);
    showTip(x(times[cell.column]), cell.row * ROW, text);
    say(text);
    const [from, to] = [marked < 0 ? cell.column : marked, cell.column].sort((a, b) => a - b);
    showRange(x(times[from]), x(times[to] + step));
  }

  function leave() {
    [cell.column, marked, tip.hidden, selection.hidden] = [-1, -1, true, true];
  }

  /** The first Enter begins a range, the second looks closer at it: from its first column to the end of its last. */
  function markColumn() {
    if (marked < 0) {
      marked = cell.column;
      say("The range begins here. Enter ends it.");
    } else if (options.zoom) {
      const [from, to] = [marked, cell.column].sort((a, b) => a - b);
      options.zoom(new Date(times[from] * 1000), new Date((times[to] + step) * 1000));
    }
  }

  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown.length || !times.length) return;
    const { column, row } = cell;
    const far = Math.max(Math.round(times.length / 20), 2);
    const size = event.shiftKey ? far : 1;
    const next = { ArrowLeft: column < 0 ? times.length - 1 : column - size, ArrowRight: column < 0 ? 0 : column + size, PageUp: column - far, PageDown: column + far, Home: 0, End: times.length - 1 }[event.key];
    const rows = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (next !== undefined) moveTo(next, row);
    else if (rows !== undefined) moveTo(column, column < 0 ? row : row + rows);
    else if (event.key === "Enter" && column >= 0) markColumn();
    else if (event.key === "Escape" && marked >= 0) {
      marked = -1;
      moveTo(column, row);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  field.addEventListener("blur", leave);
  /** Where a drag began, in pixels; negative without one. */
  let begun = -1;
  /** @param {number} at pixels @returns {number} within the columns */
  const within = (at) => Math.max(LABEL, Math.min(at, width));
  /** @param {MouseEvent} event */
  const drag = (event) => {
    const [left, right] = [begun, within(event.clientX - canvas.getBoundingClientRect().left)].sort((a, b) => a - b);
    showRange(left, right);
    return [left, right].map((at) => begin + ((at - LABEL) / (width - LABEL)) * (end - begin));
  };
  /** @param {MouseEvent} event */
  const drop = (event) => {
    const far = Math.abs(within(event.clientX - canvas.getBoundingClientRect().left) - begun) >= 4;
    const [start, stop] = drag(event);
    selection.hidden = true;
    begun = -1;
    window.removeEventListener("mousemove", drag);
    if (far) options.zoom?.(new Date(start * 1000), new Date(stop * 1000));
  };
  canvas.addEventListener("mousedown", (event) => {
    if (event.button !== 0 || !options.zoom) return;
    event.preventDefault();
    begun = within(event.offsetX);
    window.addEventListener("mousemove", drag);
    window.addEventListener("mouseup", drop, { once: true });
  });
  canvas.addEventListener("mouseleave", () => (tip.hidden = true));
  const observer = new ResizeObserver(([entry]) => {
    width = Math.max(Math.floor(entry.contentRect.width), LABEL + 60);
    draw();
  });
  observer.observe(place);
  place.destroy = () => observer.disconnect();
  return place;
}

/**
 * The least number and the greatest, and 0 between them, in a loop: a browser takes some 120,000 arguments of a call, and lines may have
 * more numbers.
 * @param {import("./chart.js").Line[]} lines @returns {[number, number]}
 */
export function scaleOf(lines) {
  let [least, greatest] = [0, 0];
  for (const { values } of lines)
    for (const value of values) [least, greatest] = [Math.min(least, value ?? 0), Math.max(greatest, value ?? 0)];
  return [least, greatest];
}

/** @param {string} text */
function clip(text) {
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}
