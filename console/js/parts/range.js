import { fill, h } from "../dom.js";
import { fieldOf, instantOf, instantOfField, showMinute, zoneName } from "../times.js";

const QUICK = /** @type {const} */ ([
  ["15 minutes", "-15m", ""], ["1 hour", "-1h", ""], ["6 hours", "-6h", ""], ["24 hours", "-24h", ""], ["7 days", "-7d", ""],
  ["30 days", "-30d", ""], ["90 days", "-90d", ""], ["Today (UTC)", "today", ""], ["Yesterday (UTC)", "yesterday", "today"],
]);

const WORDS = /** @type {Record<string, string>} */ ({ s: "seconds", m: "minutes", h: "hours", d: "days", w: "weeks" });

/** The words for a range. @param {string} from @param {string} to */
export function rangeText(from, to) {
  const quick = QUICK.find(([, start, end]) => start === from && end === to);
  if (quick) return from.startsWith("-") ? `Last ${quick[0]}` : quick[0];
  const age = /^-(\d+)([smhdw])$/.exec(from);
  if (age && (!to || to === "now")) return `Last ${age[1]} ${WORDS[age[2]]}`;
  const [start, end] = [instantOf(from), to ? instantOf(to) : null];
  return `${start ? showMinute(start) : from} – ${end ? showMinute(end) : to || "now"}`;
}

/**
 * A button that opens the choice of a range: quick ones, and two calendars.
 * @param {string} from @param {string} to @param {(from: string, to: string) => void} choose @returns {HTMLElement}
 */
export function rangePicker(from, to, choose) {
  const panel = h("div.panel.range", { hidden: true });
  const button = h(
    "button.select",
    { type: "button", "aria-expanded": "false", "aria-label": `Range: ${rangeText(from, to)}`, onclick: () => toggle(Boolean(panel.hidden)) },
    rangeText(from, to),
  );
  const box = h("div.field.anchor", {}, h("span.label", {}, "Range"), button, panel);

  /** @param {boolean} open */
  function toggle(open) {
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) {
      fill(panel, quick(), custom());
      /** @type {HTMLElement | null} */ (panel.querySelector("button"))?.focus();
    }
  }

  /** @param {string} start @param {string} end */
  function done(start, end) {
    toggle(false);
    choose(start, end);
  }

  function quick() {
    return h("div.quick", {}, QUICK.map(([text, start, end]) =>
      h("button.quiet", { type: "button", "aria-pressed": String(start === from && end === to), onclick: () => done(start, end) }, text)));
  }

  function custom() {
    const start = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", step: 1, value: fieldOf(instantOf(from) ?? new Date()) }));
    const end = /** @type {HTMLInputElement} */ (h("input", { type: "datetime-local", step: 1, value: fieldOf((to && instantOf(to)) || new Date()) }));
    const error = h("p.remedy");
    const apply = () => {
      const [first, last] = [instantOfField(start.value), instantOfField(end.value)];
      if (first && last && first < last) done(first.toISOString(), last.toISOString());
      else fill(error, "The range must end after it begins.");
    };
    return h("form.custom", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); apply(); } },
      h("label", {}, `From (${zoneName()})`, start), h("label", {}, `To (${zoneName()})`, end), error, h("button.primary", {}, "Use this range"));
  }

  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !panel.hidden) { toggle(false); button.focus(); }
  });
  box.addEventListener("focusout", (event) => {
    const next = /** @type {FocusEvent} */ (event).relatedTarget;
    if (next instanceof Node && !box.contains(next)) toggle(false);
  });
  return box;
}
