import { fill, h } from "../dom.js";

/**
 * The names of a chart's lines as switches: a click hides or shows a line; with Shift, or a double click, it is shown alone, and then all again.
 * @param {{ name: string, colour: string, earlier?: boolean }[]} lines @param {Set<string>} hidden @param {(hidden: Set<string>) => void} changed
 * @returns {HTMLElement}
 */
export function drawLegend(lines, hidden, changed) {
  const list = h("ul.lines", { "aria-label": "Lines of the chart" });

  /** @param {string} name @param {boolean} alone */
  function press(name, alone) {
    const others = lines.map((line) => line.name).filter((each) => each !== name);
    if (alone) {
      const already = !hidden.has(name) && others.every((each) => hidden.has(each));
      hidden.clear();
      if (!already) for (const each of others) hidden.add(each);
    } else if (!hidden.delete(name)) hidden.add(name);
    draw();
    changed(hidden);
  }

  function draw() {
    const focused = [...list.querySelectorAll("button")].indexOf(/** @type {any} */ (document.activeElement));
    fill(list, lines.map(({ name, colour, earlier }) => h("li", {},
      h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), class: earlier ? "earlier" : "",
        title: "A click hides or shows this line; with Shift, only this line is shown",
        onclick: (/** @type {MouseEvent} */ event) => press(name, event.shiftKey || event.ctrlKey || event.metaKey) },
        h("span.key", { vars: { colour } }), h("span.name", {}, name)))));
    if (focused >= 0) list.querySelectorAll("button")[focused]?.focus();
  }

  draw();
  return list;
}
