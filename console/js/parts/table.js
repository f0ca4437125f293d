import { fill, h, onEnter } from "../dom.js";
import { isNumber, plural, showValue } from "../format.js";

/**
 * A column. A column with a `value` can be sorted by it.
 * @typedef {{ name: string, cell: (row: any) => Node | string | number | null | undefined, number?: boolean, value?: (row: any) => unknown }} Column
 * @typedef {{ caption: string, open?: (row: any) => void, sort?: string, sorted?: (sort: string) => void }} Options
 */

// So many rows are put into the page at first, and when its reader comes near their end: ten thousand at once take seconds.
const PART = 200;
const collator = new Intl.Collator(undefined, { numeric: true });

/**
 * A table with a heading that stays. A row that can be opened is reached by the keyboard, too. `sort` is the name of the column by which
 * the rows are sorted, with a "-" in front for the greatest first.
 * @param {Column[]} columns @param {any[]} rows @param {Options} options @returns {HTMLElement}
 */
export function showTable(columns, rows, { caption, open, sort = "", sorted }) {
  const body = h("tbody");
  const head = h("thead");
  const more = h("button.quiet", { type: "button", onclick: () => grow() });
  const rest = h("p.rest", {}, more);
  const place = h("div.scroll", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", { "aria-rowcount": rows.length + 1 }, h("caption.visually-hidden", {}, caption), head, body), rest);
  let order = sort;
  let ordered = rows;
  let shown = 0;

  /** @param {any} row */
  const line = (row) =>
    h("tr", open ? { tabindex: 0, class: "opens", onclick: () => open(row), onkeydown: onEnter(() => open(row)) } : {},
      columns.map((column) => h(column.number ? "td.number" : "td", {}, column.cell(row))));

  function grow() {
    body.append(...ordered.slice(shown, shown + PART).map(line));
    shown = Math.min(shown + PART, ordered.length);
    rest.hidden = shown === ordered.length;
    more.textContent = `${plural(ordered.length - shown, "more row")}`;
  }

  function draw() {
    const column = columns.find(({ name, value }) => value && name === order.replace(/^-/, ""));
    ordered = column ? sortRows(rows, /** @type {(row: any) => unknown} */ (column.value), order.startsWith("-")) : rows;
    shown = 0;
    fill(body);
    fill(head, h("tr", {}, columns.map(heading)));
    grow();
  }

  /** @param {Column} column */
  function heading(column) {
    const direction = order === column.name ? "ascending" : order === `-${column.name}` ? "descending" : null;
    const text = !column.value ? column.name : h("button.sort", { type: "button", onclick: () => choose(column) }, column.name,
      h("span.arrow", { "aria-hidden": "true" }, direction === "ascending" ? "▲" : direction === "descending" ? "▼" : ""));
    return h(column.number ? "th.number" : "th", { scope: "col", "aria-sort": direction }, text);
  }

  /** Numbers begin with the greatest, text with its beginning; the third time the answer's own order is back. @param {Column} column */
  function choose(column) {
    const turns = column.number ? [`-${column.name}`, column.name, ""] : [column.name, `-${column.name}`, ""];
    order = turns[(turns.indexOf(order) + 1) % turns.length];
    draw();
    place.scrollTop = 0;
    /** @type {HTMLElement | undefined} */ ([...head.querySelectorAll("button")].find((button) => button.firstChild?.textContent === column.name))?.focus();
    sorted?.(order);
  }

  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting) || rest.hidden) return;
    grow();
    // Of a reader who is at the end again at once, the observer would see no change.
    observer.unobserve(rest);
    observer.observe(rest);
  }, { root: place, rootMargin: "400px" });
  observer.observe(rest);
  draw();
  return place;
}

/** Rows by a value: numbers, then text, and rows without it last. @param {any[]} rows @param {(row: any) => unknown} value @param {boolean} descending */
export function sortRows(rows, value, descending) {
  const keyed = rows.map((row) => ({ row, key: value(row) }));
  const sign = descending ? -1 : 1;
  /** @param {unknown} key */
  const rank = (key) => (key === null || key === undefined || key === "" ? 2 : isNumber(key) ? 0 : 1);
  keyed.sort((a, b) => {
    const [left, right] = [rank(a.key), rank(b.key)];
    if (left !== right) return left === 2 || right === 2 ? left - right : (left - right) * sign;
    if (left === 2) return 0;
    if (left === 0) return compareNumbers(/** @type {any} */ (a.key), /** @type {any} */ (b.key)) * sign;
    return collator.compare(showValue(a.key), showValue(b.key)) * sign;
  });
  return keyed.map(({ row }) => row);
}

/** In the order of all digits: numbers beyond 2^53 are a bigint. @param {number | bigint} a @param {number | bigint} b */
function compareNumbers(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A column of a field of `data`, right-aligned if its first value is a number. @param {string} path @param {any[]} flat @returns {Column} */
export function fieldColumn(path, flat) {
  const first = flat.find((row) => row.flat[path] !== undefined && row.flat[path] !== null);
  return { name: path, number: isNumber(first?.flat[path]), cell: (row) => showValue(row.flat[path]), value: (row) => row.flat[path] };
}
