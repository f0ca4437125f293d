// Every stream's period tables along time: their state, class and capacity.

import { get, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { plural, showBytes, showMoney, showNumber } from "../format.js";
import { loadBill } from "../parts/bill.js";
import { showDialog, showFacts } from "../parts/dialog.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { showTable } from "../parts/table.js";
import { drawTide } from "../parts/tidepicture.js";
import { hashOf } from "../state.js";
import { showOperations } from "./operations.js";
import { lengthWords, showMinute, showTime } from "../times.js";

const STATES = /** @type {const} */ ([
  ["creating", "being created"], ["ahead", "made ahead"], ["open", "open"], ["late", "open for late events"], ["closed", "closed"],
  ["retained", "archived, its table answers on"], ["archiving", "being archived"],
  ["archived", "archived"], ["deleted", "deleted"], ["restoring", "being restored"],
]);

/** @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams @param {AbortSignal} signal @param {string[]} can */
export function showTide(place, values, streams, signal, can) {
  const table = values.get("show") === "table";
  const operates = can.includes("operate");
  // Prices come later than the tables, and the tide does not wait for them.
  const bill = operates ? loadBill().then((body) => new Map(body.streams.map((/** @type {any} */ row) => [row.stream, row])), () => new Map()) : null;
  fill(place,
    h("div.viewbar", {}, h("h1", {}, "Tide"), h("p.hint", {}, "A bar is the table of a period. Its height and the number above it are the write units per second that it has."),
      h("a.button", { href: hashOf("tide", table ? {} : { show: "table" }) }, table ? "Show as pictures" : "Show as tables")),
    operates ? showOperations(signal) : null,
    legend(),
    streams.length ? null : showEmpty("No streams", "tidetable.toml names the streams of a stage."),
    streams.map((stream) => lane(stream)));

  /** @param {any} stream */
  function lane(stream) {
    const content = h("div.lanecontent", {}, showBusy());
    /** @type {any[]} */
    const periods = [];
    let next = "";
    let loading = false;
    /** What operators see of the stream's price. @type {Pricing} */
    const pricing = { operates, ready: false, prices: new Map(), arrived: [] };
    const price = h("span");
    load();
    bill?.then((rows) => {
      const row = rows.get(stream.stream);
      pricing.ready = true;
      for (const period of row?.periods ?? []) pricing.prices.set(period.period, period);
      if (row && !signal.aborted) fill(price, " · ", h("a", { href: hashOf("cost", { stream: stream.stream }) }, `${showMoney(row.dollars)} a month`));
      if (!periods.length || signal.aborted) return;
      // A picture keeps its bars, and with them the focus; a table gets other cells.
      if (table) draw();
      else for (const act of pricing.arrived) act();
    });

    async function load() {
      // A second click before the answer would read the same periods again.
      if (loading) return;
      loading = true;
      try {
        const { body } = await get(streamPath(stream.stream, "periods"), next ? { cursor: next } : { limit: 60 }, signal);
        periods.push(...body.periods);
        next = body.next ?? "";
        if (!signal.aborted) draw();
      } catch (error) {
        if (!signal.aborted) fill(content, showProblem(error, load));
      } finally {
        loading = false;
      }
    }

    function draw() {
      if (!periods.length) fill(content, showEmpty("No period tables yet", "The lifecycle creates the first within five minutes."));
      else fill(content, table ? asTable(stream, periods, pricing) : picture(stream, periods, pricing, content.clientWidth || 1000), summary(periods),
        next ? h("button.quiet", { type: "button", onclick: load }, "Show earlier periods") : null);
    }

    return h("section.lane", { "aria-label": stream.stream },
      h("header", {}, h("h2", {}, h("a", { href: hashOf("explore", { stream: stream.stream }) }, stream.stream)),
        h("p.hint", {}, `a table per ${stream.period} · takes events up to ${lengthWords(stream.late)} late · kept ${plural(stream.retention, stream.period)}, then ${EXPIRY[stream.on_expiry] ?? stream.on_expiry}`, price)),
      content);
  }
}

const EXPIRY = /** @type {Record<string, string>} */ ({ archive: "archived", delete: "deleted", keep: "kept" });

/** @param {any} period */
export function stateOf(period) {
  // A table that was deleted after its archive was verified: its events are in the archive.
  if (period.state === "deleted" && period.archive) return "archived";
  if (period.state !== "open") return period.state;
  return Date.parse(period.end) < Date.now() ? "late" : Date.parse(period.start) > Date.now() ? "ahead" : "open";
}

/** @param {any} period */
function capacityText(period) {
  const capacity = period.capacity;
  if (!capacity) return period.archive ? "in S3" : "no table";
  if (capacity.mode === "on-demand") return "on demand";
  return `${showNumber(capacity.write)} write, ${showNumber(capacity.read)} read units`;
}

/**
 * What operators see of the price of a stream's periods; `arrived` are to be called when it is known.
 * @typedef {{ operates: boolean, ready: boolean, prices: Map<string, { dollars: number, next: { at: string, change: string } | null }>, arrived: (() => void)[] }} Pricing
 */

/** The price of a period's tables. @param {Pricing} pricing @param {any} period @returns {string} */
function priceText(pricing, period) {
  if (!pricing.operates) return "for keys that may operate";
  const price = pricing.prices.get(period.period);
  if (price) return showMoney(price.dollars);
  if (period.state === "deleted") return "";
  return pricing.ready ? "not known" : "being calculated";
}

/** The next step of the ladder and its date. @param {Pricing} pricing @param {any} period @returns {string} */
function stepText(pricing, period) {
  const next = pricing.prices.get(period.period)?.next;
  return next ? `${next.change}, on ${showMinute(next.at)}` : "";
}

/** What hovering says of a period. @param {any} period @param {Pricing} pricing */
function tipText(period, pricing) {
  const state = stateOf(period);
  const facts = [STATES.find(([name]) => name === state)?.[1] ?? state, capacityText(period)];
  if (period.size_bytes) facts.push(showBytes(period.size_bytes));
  if (pricing.prices.has(period.period)) facts.push(`${priceText(pricing, period)} a month`);
  const step = stepText(pricing, period);
  return `${period.period}: ${facts.join(", ")}${step ? `; next: ${step}` : ""}`;
}

/** @param {any} stream @param {any[]} periods the newest first @param {Pricing} pricing @param {number} room pixels */
function picture(stream, periods, pricing, room) {
  return drawTide([...periods].reverse(), room, { label: `Period tables of ${stream.stream}`, kindOf,
    textOf: (period) => tipText(period, pricing), open: (period) => openPeriod(stream, period, pricing), arrived: pricing.arrived });
}

/** The CSS classes of a period: its state, and of its table the mode and the class. @param {any} period */
function kindOf(period) {
  const { mode, class: storage } = period.capacity ?? {};
  const state = stateOf(period);
  return [state === "ahead" ? "open ahead" : state, mode === "on-demand" ? "demand" : "", storage === "infrequent-access" ? "ia" : ""].join(" ");
}

/** @param {any} stream @param {any[]} periods @param {Pricing} pricing */
function asTable(stream, periods, pricing) {
  return showTable([
    { name: "period", cell: (period) => period.period },
    { name: "state", cell: (period) => STATES.find(([name]) => name === stateOf(period))?.[1] ?? period.state },
    { name: "capacity", cell: capacityText },
    { name: "class", cell: (period) => period.capacity?.class },
    { name: "items", number: true, cell: (period) => (period.item_count === undefined ? "" : showNumber(period.item_count)) },
    { name: "size", number: true, cell: (period) => (period.size_bytes === undefined ? "" : showBytes(period.size_bytes)) },
    { name: "archive", cell: (period) => (period.archive ? plural(period.archive.events ?? 0, "event") : "") },
    ...(pricing.operates ? [
      { name: "a month", number: true, cell: (/** @type {any} */ period) => priceText(pricing, period) },
      { name: "next step", cell: (/** @type {any} */ period) => h("span.wrap", {}, stepText(pricing, period)) },
    ] : []),
  ], periods, { caption: `Periods of ${stream.stream}`, open: (period) => openPeriod(stream, period, pricing) });
}

/** @param {any[]} periods */
function summary(periods) {
  const bytes = periods.reduce((sum, period) => sum + (period.size_bytes ?? 0), 0);
  const items = periods.reduce((sum, period) => sum + (period.item_count ?? 0), 0);
  const tables = periods.filter((period) => period.capacity).length;
  return h("p.hint", {}, `${plural(tables, "table")}, ${plural(items, "item")}, ${showBytes(bytes)} as DynamoDB last counted them (about every six hours).`);
}

/** @param {any} stream @param {any} period @param {Pricing} pricing */
function openPeriod(stream, period, pricing) {
  const archive = period.archive;
  showDialog(`${stream.stream}, ${period.period}`,
    showFacts({
      State: STATES.find(([name]) => name === stateOf(period))?.[1] ?? period.state,
      "Table's status": period.status,
      From: showTime(period.start),
      To: showTime(period.end),
      Table: period.table,
      Capacity: capacityText(period),
      Class: period.capacity?.class,
      "Items, about": period.item_count === undefined || period.item_count === null ? null : showNumber(period.item_count),
      "Size, about": period.size_bytes === undefined || period.size_bytes === null ? null : showBytes(period.size_bytes),
      "Price a month": priceText(pricing, period),
      "Next step": stepText(pricing, period),
      Layout: layoutText(period.layout),
      Backfill: period.backfill ? `open until ${showMinute(period.backfill.until)}` : null,
      Archive: archive ? `${plural(archive.events ?? 0, "event")}, ${showBytes(archive.bytes)}` : null,
      "Archived at": archive?.at ? showTime(archive.at) : null,
    }),
    h("p", {}, h("a.button.primary", { href: hashOf("explore", { stream: stream.stream, from: period.start, to: period.end, ask: "events", show: "table" }),
      onclick: (/** @type {any} */ event) => event.target.closest("dialog").close() }, "Show its events")));
}

/** @param {any} layout */
function layoutText(layout) {
  if (!layout) return null;
  const parts = [layout.partition_by === "series" ? "by series" : `by time, buckets of ${layout.bucket_seconds / 3600} h`, plural(layout.shards, "shard") + (layout.shard_by === "series" && layout.partition_by === "time" ? ` by series${layout.shard_until ? ` up to ${layout.shard_until}` : ""}` : "")];
  if (layout.pack) parts.push(`packs of ${layout.pack.span_seconds} s`);
  return parts.join(", ");
}

function legend() {
  return h("ul.legend", { "aria-label": "Legend" }, STATES.filter(([name]) => !["deleted", "restoring"].includes(name)).map(([name, text]) =>
    h("li", {}, h("span.swatch", { class: name }), text)), h("li", {}, h("span.swatch.ia"), "closed, class infrequent access"), h("li", {}, h("span.swatch.open.demand"), "on demand"));
}
