import { h, onEnter } from "../dom.js";
import { showValue } from "../format.js";

/**
 * @typedef {{ name: string, cell: (row: any) => Node | string | number | null | undefined, number?: boolean }} Column
 */

/**
 * A table with a heading that stays. A row that can be opened is reached by the keyboard, too.
 * @param {Column[]} columns @param {any[]} rows @param {{ caption: string, open?: (row: any) => void }} options
 * @returns {HTMLElement}
 */
export function showTable(columns, rows, { caption, open }) {
  const body = rows.map((row) =>
    h("tr", open ? { tabindex: 0, class: "opens", onclick: () => open(row), onkeydown: onEnter(() => open(row)) } : {}, columns.map((column) => h(column.number ? "td.number" : "td", {}, column.cell(row)))));
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption.visually-hidden", {}, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h(column.number ? "th.number" : "th", { scope: "col" }, column.name)))),
      h("tbody", {}, body)));
}

/** A column of a field of `data`, right-aligned if its first value is a number. @param {string} path @param {any[]} flat @returns {Column} */
export function fieldColumn(path, flat) {
  const first = flat.find((row) => row.flat[path] !== undefined && row.flat[path] !== null);
  return { name: path, number: typeof first?.flat[path] === "number", cell: (row) => showValue(row.flat[path]) };
}
