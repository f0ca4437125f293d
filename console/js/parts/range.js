import { fill, h } from "../dom.js";
import { boundOf, fieldOf, instantOf, instantOfField, lengthWords, showMinute, zoneName } from "../times.js";

const QUICK = /** @type {const} */ ([
  ["15 minutes", "-15m", ""], ["1 hour", "-1h", ""], ["6 hours", "-6h", ""], ["24 hours", "-24h", ""], ["7 days", "-7d", ""],
  ["30 days", "-30d", ""], ["90 days", "-90d", ""], ["Today", "today", ""], ["Yesterday", "yesterday", "today"],
]);

/** The words for a range. @param {string} from @param {string} to */
export function rangeText(from, to) {
  const quick = QUICK.find(([, start, end]) => start === from && end === to);
  if (quick) return from.startsWith("-") ? `Last ${quick[0]}` : quick[0];
  const age = /^-(\d+)([smhdw])$/.exec(from);
  if (age && (!to || to === "now")) return `Last ${lengthWords(from.slice(1)).replace(/^1 /, "")}`;
  const [start, end] = [instantOf(from), to ? instantOf(to) : null];
  return `${start ? showMinute(start) : from} – ${end ? showMinute(end) : to || "now"}`;
}

/** A bound of a range as it is typed. @param {string} text */
function typedOf(text) {
  const instant = /^\d{4}-|^\d{10,}$/.test(text) ? instantOf(text) : null;
  return instant ? fieldOf(instant).replace("T", " ") : text;
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
    const [first, last] = [bound("From", typedOf(from)), bound("To", typedOf(to || "now"))];
    const error = h("p.remedy", { role: "alert" });
    const apply = () => {
      const [start, end] = [boundOf(first.input.value), boundOf(last.input.value)];
      const wrong = start === null ? first : end === null ? last : null;
      if (wrong) fill(error, `“${wrong.input.value}” is not a time. Write -6h, now-6h, today, or 2026-03-31 10:00.`);
      else if (Number(instantOf(start ?? "")) >= Number(instantOf(end ?? ""))) fill(error, "The range must end after it begins.");
      else done(start ?? "", end === "now" ? "" : (end ?? ""));
    };
    return h("form.custom", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); apply(); } },
      first.field, last.field, h("p.hint", {}, `-6h, now-6h, today, or a date and time in ${zoneName()}`), error, h("button.primary", {}, "Use this range"));
  }

  /** A bound that is typed, or picked from a calendar. @param {string} label @param {string} value */
  function bound(label, value) {
    const input = /** @type {HTMLInputElement} */ (h("input", { value, name: label.toLowerCase(), spellcheck: "false", autocomplete: "off" }));
    const calendar = /** @type {HTMLInputElement} */ (h("input.calendar", { type: "datetime-local", step: 1, "aria-label": `${label}: calendar`,
      value: fieldOf(instantOf(boundOf(value) ?? "") ?? new Date()),
      onchange: () => { if (instantOfField(calendar.value)) input.value = calendar.value.replace("T", " "); } }));
    return { input, field: h("div.bound", {}, h("label", {}, label, input), calendar) };
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
