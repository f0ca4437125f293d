import { h } from "../dom.js";
import { showNumber } from "../format.js";
import { showMinute } from "../times.js";

const ROW = 22;
const LABEL = 150;
const FOOT = 26;

/**
 * A heat map: a row per line, a column per time, the colour by the number.
 * @param {number[]} times seconds since 1970 @param {import("./chart.js").Line[]} lines
 * @param {{ step?: number, zoom?: (start: Date, end: Date) => void }} [options]
 * @returns {HTMLElement & { destroy: () => void }}
 */
export function drawHeatmap(times, lines, options = {}) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", "aria-label": `Heat map of ${lines.length} groups` }));
  const tip = h("div.tip", { hidden: true });
  const selection = h("div.selection", { hidden: true });
  const scale = h("p.hint.scale", {});
  const place = /** @type {any} */ (h("div.chart.heat", {}, canvas, selection, tip, scale));
  const shown = lines.slice(0, 60);
  const most = Math.max(...shown.flatMap((line) => line.values.map((value) => value ?? 0)), Number.MIN_VALUE);
  scale.append("0 ", h("span.ramp"), ` ${showNumber(most)}`);
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
        context.globalAlpha = 0.08 + 0.92 * Math.sqrt(Math.max(value, 0) / most);
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

  canvas.addEventListener("mousemove", (event) => {
    const row = Math.floor(event.offsetY / ROW);
    const time = begin + ((event.offsetX - LABEL) / (width - LABEL)) * (end - begin);
    const column = times.findIndex((start) => time >= start && time < start + step);
    const value = shown[row]?.values[column];
    tip.hidden = value === undefined || value === null;
    if (tip.hidden) return;
    tip.textContent = `${shown[row].name}, ${showMinute(times[column] * 1000)}: ${showNumber(value)}`;
    tip.style.setProperty("--x", `${Math.min(event.offsetX + 12, width - 180)}px`);
    tip.style.setProperty("--y", `${event.offsetY + 14}px`);
  });
  /** Where a drag began, in pixels; negative without one. */
  let begun = -1;
  /** @param {number} at pixels @returns {number} within the columns */
  const within = (at) => Math.max(LABEL, Math.min(at, width));
  /** @param {MouseEvent} event */
  const drag = (event) => {
    const [left, right] = [begun, within(event.clientX - canvas.getBoundingClientRect().left)].sort((a, b) => a - b);
    selection.hidden = false;
    selection.style.setProperty("--x", `${left}px`);
    selection.style.setProperty("--width", `${right - left}px`);
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

/** @param {string} text */
function clip(text) {
  return text.length > 22 ? `${text.slice(0, 21)}…` : text;
}
