// The picture of a stream's period tables along time.

import { h, onEnter, s } from "../dom.js";
import { showNumber } from "../format.js";
import { showPeriod } from "../times.js";

const HEIGHT = 158;
const FOOT = 20;
// The room above the tallest bar: a line for the word "now", and a line for the numbers.
const HEAD = 34;
// Bars fill the lane between these widths, in pixels.
const NARROWEST = 18;
const WIDEST = 96;

/**
 * Bars as high as the write capacity of the tables. A run of tables with the same capacity has its number above it.
 * @param {any[]} periods the oldest first @param {number} room pixels
 * @param {{ label: string, kindOf: (period: any) => string, textOf: (period: any) => string, open: (period: any) => void, arrived: (() => void)[] }} options
 *   the CSS classes of a bar, what hovering says, and what a click does; `arrived` are to be called when the texts change
 * @returns {HTMLElement}
 */
export function drawTide(periods, room, { label, kindOf, textOf, open, arrived }) {
  const most = Math.max(...periods.map((period) => Math.log2(1 + (period.capacity?.write ?? 0))), 1);
  const width = Math.max(NARROWEST, Math.min(WIDEST, Math.floor(room / periods.length)));
  const tip = h("div.tip", { hidden: true });
  const heights = periods.map((period) => Math.max(3, shareOf(period, most) * (HEIGHT - HEAD)));
  const bars = periods.map((period, number) => {
    const height = heights[number];
    const tell = () => show(textOf(period), number);
    const box = { x: number * width + 1.5, y: HEIGHT - height, width: width - 3, height, rx: Math.min(4, width / 5, height / 2) };
    const group = s("g.period", { tabindex: 0, role: "button", "aria-label": textOf(period), class: kindOf(period), onclick: () => open(period), onkeydown: onEnter(() => open(period)),
      onmouseenter: tell, onfocus: tell, onmouseleave: hide, onblur: hide },
      s("rect.hit", { x: number * width, y: 0, width, height: HEIGHT }), s("rect.bar", box),
      period.capacity?.mode === "on-demand" ? s("rect.hatch", { ...box, fill: "url(#hatch)" }) : null);
    arrived.push(() => group.setAttribute("aria-label", textOf(period)));
    return group;
  });
  const every = Math.ceil(86 / width);
  const names = periods.map((period, number) => ((periods.length - 1 - number) % every || (number + 0.5) * width < 24 ? null
    : s("text", { x: Math.min((number + 0.5) * width, width * periods.length - 22), y: HEIGHT + 15, "text-anchor": "middle" }, showPeriod(period.period))));
  const svg = s("svg", { viewBox: `0 0 ${width * periods.length} ${HEIGHT + FOOT}`, width: width * periods.length, height: HEIGHT + FOOT, role: "group", "aria-label": label },
    s("defs", {}, s("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 2, height: 7 }))),
    bars, s("line.ground", { x1: 0, x2: width * periods.length, y1: HEIGHT, y2: HEIGHT }), names.filter((name) => name !== null),
    nowLine(periods, width), runsOf(periods).map(([first, last]) => runText(periods[first], ((first + last + 1) / 2) * width, (last - first + 1) * width, heights[first])));
  const scroll = h("div.tide", {}, svg, tip);
  // The present is at the right.
  requestAnimationFrame(() => (scroll.scrollLeft = scroll.scrollWidth));

  /** @param {string} text @param {number} number */
  function show(text, number) {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.setProperty("--x", `${Math.max(scroll.scrollLeft, Math.min(number * width, scroll.scrollLeft + scroll.clientWidth - 260))}px`);
    tip.style.setProperty("--y", "0px");
  }

  function hide() {
    tip.hidden = true;
  }

  return scroll;
}

/** The height of a bar, of 1. The scale is logarithmic: the steps of a ladder differ by factors. @param {any} period @param {number} most */
function shareOf(period, most) {
  if (!period.capacity) return 0.05;
  return period.capacity.mode === "on-demand" ? 0.5 : 0.1 + (0.9 * Math.log2(1 + period.capacity.write)) / most;
}

/** The first and the last of neighbours with the same capacity. @param {any[]} periods @returns {[number, number][]} */
function runsOf(periods) {
  const capacityOf = (/** @type {any} */ period) => (period.capacity ? `${period.capacity.mode} ${period.capacity.write}` : "");
  const runs = /** @type {[number, number][]} */ ([]);
  for (const [number, period] of periods.entries()) {
    if (number && capacityOf(period) === capacityOf(periods[number - 1])) runs[runs.length - 1][1] = number;
    else runs.push([number, number]);
  }
  return runs;
}

/** The capacity of a run, if its text has the room. @param {any} period @param {number} x @param {number} room @param {number} height */
function runText(period, x, room, height) {
  const provisioned = period.capacity && period.capacity.mode !== "on-demand";
  const text = provisioned ? showNumber(period.capacity.write) : period.capacity ? "on demand" : "in S3";
  // A number may reach over its bar, as its neighbours are lower or have no number.
  return text.length * 6.2 > room + (provisioned ? 8 : 0) ? s("g") : s("text.amount", { x, y: HEIGHT - height - 6, "text-anchor": "middle" }, text);
}

/** @param {any[]} periods @param {number} width */
function nowLine(periods, width) {
  const now = Date.now();
  const current = periods.findIndex((period) => Date.parse(period.start) <= now && now < Date.parse(period.end));
  if (current < 0) return s("g");
  const [start, end] = [periods[current].start, periods[current].end].map((text) => Date.parse(text));
  const x = (current + (now - start) / (end - start)) * width;
  return s("g.present", {}, s("line.now", { x1: x, x2: x, y1: 14, y2: HEIGHT }), s("text", { x: Math.max(x, 12), y: 10, "text-anchor": "middle" }, "now"));
}
