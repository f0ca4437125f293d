import { fill, h } from "../dom.js";
import { showNumber } from "../format.js";
import { showTime } from "../times.js";

// Beyond so many lines the readout names the greatest.
const MOST = 12;

/**
 * What every line is at the time under the cursor, the greatest first, and the line nearest to it.
 * @returns {HTMLElement & { show: (at: Place | null) => string }}
 * @typedef {{ time: number, rows: { name: string, colour: string, value: number, y: number }[], x: number, y: number, width: number }} Place
 */
export function drawReadout() {
  const element = /** @type {any} */ (h("div.readout", { hidden: true }));

  /** @param {Place | null} at @returns {string} the same as a sentence */
  element.show = (at) => {
    element.hidden = !at || !at.rows.length;
    if (!at || element.hidden) return "";
    const rows = [...at.rows].sort((a, b) => b.value - a.value);
    const nearest = rows.reduce((best, row) => (Math.abs(row.y - at.y) < Math.abs(best.y - at.y) ? row : best), rows[0]);
    const shown = rows.slice(0, MOST);
    if (!shown.includes(nearest)) shown[shown.length - 1] = nearest;
    const time = showTime(at.time * 1000);
    fill(element, h("time", {}, time),
      h("ul", {}, shown.map((row) => h("li", { class: row === nearest && rows.length > 1 ? "nearest" : "" },
        h("span.key", { vars: { colour: row.colour } }), h("span.name", {}, row.name), h("b", {}, showNumber(row.value))))),
      rows.length > shown.length ? h("small", {}, `and ${rows.length - shown.length} more`) : null);
    // Beside the cursor, on the side that has room.
    const left = at.x > at.width / 2;
    element.classList.toggle("left", left);
    element.style.setProperty("--x", `${left ? at.width - at.x + 14 : at.x + 14}px`);
    return `${time}: ${shown.map((row) => `${row.name} ${showNumber(row.value)}`).join(", ")}`;
  };
  return element;
}
