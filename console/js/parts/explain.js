import { h } from "../dom.js";
import { plural, showNumber } from "../format.js";
import { showTime } from "../times.js";
import { showTable } from "./table.js";

/** The plan of a query: what it would read, from where, and for how many read units. @param {any} plan @returns {HTMLElement} */
export function showExplain(plan) {
  const { page, all_pages: all } = plan.estimate ?? {};
  const sources = [
    { name: "period", cell: (/** @type {any} */ stage) => stage.period },
    { name: "from", cell: (/** @type {any} */ stage) => (stage.index ? `${stage.source} ${stage.index}` : stage.source) },
    { name: "range", cell: (/** @type {any} */ stage) => `${showTime(stage.from)} – ${showTime(stage.to)}` },
    { name: "ranges", number: true, cell: (/** @type {any} */ stage) => stage.ranges },
    { name: "filtered after reading", cell: (/** @type {any} */ stage) => (stage.filtered_by ?? []).join(", ") },
    { name: "notes", cell: (/** @type {any} */ stage) => [stage.fetches && "fetches events from the table", stage.unpacks && "reads packs whole"].filter(Boolean).join("; ") },
  ];
  const rollups = plan.rollups?.length
    ? h("ul.notes", {}, plan.rollups.map((/** @type {any} */ rollup) => h("li", {}, rollup.used ? `The rollup ${rollup.rollup} is used.` : `The rollup ${rollup.rollup} is not used: ${rollup.reason}.`)))
    : null;
  return h("div.explain", {},
    page ? h("div.cards", {}, card("This page", page), plan.estimate.pages > 1 ? card(`At most ${plural(plan.estimate.pages, "page")}`, all) : null) : null,
    rollups,
    plan.stages?.length ? showTable(sources, plan.stages, { caption: "What is read" }) : h("p.hint", {}, "Nothing is read."),
    plan.stages_left_out ? h("p.hint", {}, `And ${plural(plan.stages_left_out, "more source")}.`) : null,
    plan.estimate?.guessed_shares ? h("p.hint", {}, plan.estimate.guessed_shares === 1 ? "A size in this estimate is a guess." : `${showNumber(plan.estimate.guessed_shares)} sizes in this estimate are guesses.`) : null);
}

/** @param {string} title @param {any} cost */
function card(title, cost) {
  return h("div.card", {}, h("span.label", {}, title), h("strong", {}, `${showNumber(cost.read_units)} read units`), h("span", {}, plural(cost.requests, "request")));
}
