// Today's bill by stream, and what another configuration would make of it.

import { get } from "../api.js";
import { fill, h, say, withCode } from "../dom.js";
import { showMoney, showNumber } from "../format.js";
import { loadBill, pricesText } from "../parts/bill.js";
import { curlOf } from "../parts/copy.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { showTable } from "../parts/table.js";
import { go, hashOf } from "../state.js";
import { showMinute } from "../times.js";

/** The kinds of cost, in the order of the bars: name, and what the lines of the bill begin with. */
const KINDS = /** @type {const} */ ([
  ["writes", /^(?!copies).*, writes$|^workers|^late events/], ["reads", /^(?!copies).*, reads$/], ["storage", /^(?!copies).*, storage$|^backups/],
  ["copies", /^copies|, copies$/], ["archive", /^archive/], ["requests", /^API Gateway|^functions|^feed|^logs|^KMS, requests/], ["fixed", /^metrics|^alarms|^auto scaling|^scheduler|^queues|^KMS key/],
]);
/** The figures of a workload: parameter, label, what it counts, and the least step. */
const FIGURES = /** @type {const} */ ([
  ["rate", "Events per second"], ["bytes", "Bytes per event"], ["batch", "Events per request"], ["series_per_request", "Series per request"], ["reads", "Queries per second"], ["old_reads", "Old queries per second"], ["read_bytes", "Bytes per query"],
]);
const ASSUMED = /** @type {Record<string, string>} */ ({ bytes: "1000", batch: "100", reads: "1", old_reads: "0", read_bytes: "8192" });

/** @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} _streams @param {AbortSignal} signal @param {string[]} can */
export function showCost(place, values, _streams, signal, can) {
  const bill = h("section.result", { "aria-label": "Bill" }, showBusy("Adding up the bill…"));
  const whatif = h("section.result", { "aria-label": "What if" });
  fill(place, h("div.viewbar", {}, h("h1", {}, "Cost"), h("p.hint", {}, "The cost of the present tables, and the cost of another configuration.")), bill, whatif);
  if (!can.includes("operate")) {
    fill(bill, showEmpty("This key may not operate", "The bill is for the operators of the stage. Enter a key that may operate, with the button “Key” above."));
    return;
  }
  load();

  /** @param {boolean} [again] */
  async function load(again) {
    try {
      const body = await loadBill(again);
      if (signal.aborted) return;
      drawBill(bill, body, values, () => { fill(bill, showBusy("Adding up the bill…")); load(true); });
      drawWhatIf(whatif, body, values, signal);
    } catch (error) {
      if (!signal.aborted) fill(bill, showProblem(error, () => load(true)));
    }
  }
}

/** @param {HTMLElement} place @param {any} body of /v1/cost @param {URLSearchParams} values @param {() => void} again */
function drawBill(place, body, values, again) {
  const rows = [...body.streams.map((/** @type {any} */ row) => ({ name: row.stream, ...row })),
    ...(body.stage.lines.length ? [{ name: "API and functions", shared: true, ...body.stage }] : []),
    ...(body.fixed.lines.length ? [{ name: "metrics and alarms", shared: true, ...body.fixed }] : [])];
  const most = Math.max(...rows.map((row) => row.dollars), 0.01);
  const chosen = rows.find((row) => row.stream === values.get("stream"));
  if (!rows.length) return fill(place, showEmpty("No streams", "tidetable.toml names the streams of a stage."));
  say(`${showMoney(body.dollars)} a month`);
  fill(place,
    h("div.resultbar", {}, h("p.sum", {}, h("strong", {}, showMoney(body.dollars)), " a month, with the present tables ", h("span.hint", {}, `(${showMinute(body.at)})`)),
      h("button.quiet", { type: "button", onclick: again }, "Add up again")),
    body.incomplete.length ? h("ul.notes.warn", {}, body.incomplete.map((/** @type {string} */ text) => h("li", {}, text))) : null,
    h("ul.legend", { "aria-label": "Legend" }, KINDS.filter(([kind, lines]) => kind !== "copies" || rows.some((row) => row.lines.some((/** @type {any} */ line) => lines.test(line.name)))).map(([kind]) => h("li", {}, h("span.swatch", { class: `cost-${kind}` }), kind))),
    showTable([
      { name: "stream", cell: (row) => row.shared ? row.name : h("a", { href: hashOf("cost", { stream: row.stream }), "aria-current": row === chosen ? "true" : null }, row.name) },
      { name: "a month", number: true, cell: (row) => showMoney(row.dollars) },
      { name: "made of", cell: (row) => bar(row, most) },
      { name: "", cell: (row) => row.removed_since ? "no longer configured" : row.source ? `a rollup of ${row.source}` : "" },
    ], rows, { caption: "The bill by stream" }),
    chosen?.workload ? wallText(chosen.workload.wall) : null,
    chosen ? h("details", { open: true }, h("summary", {}, `What ${chosen.name} is made of`), lineTable(chosen.lines, `The bill of ${chosen.name}`)) : null,
    chosen?.next ? olderPeriods(chosen.stream, chosen.next) : null,
    h("p.hint", {}, pricesText(body.prices)), discountList(body.discounts),
    h("details", {}, h("summary", {}, "Costs that this bill does not include"), h("ul", {}, body.not_priced.map((/** @type {string} */ text) => h("li", {}, text)))));
}

/** A button that prices the next page of a stream's periods, and shows it in its place. @param {string} stream @param {string} before @returns {HTMLElement} */
function olderPeriods(stream, before) {
  const place = h("div.content", {}, h("button", { type: "button", onclick: load }, `Price the periods before ${showMinute(before)}`));
  return place;

  async function load() {
    fill(place, showBusy("Adding up older periods…"));
    try {
      const { body } = await get("v1/cost", { stream, before });
      const [page] = body.streams;
      say(`${showMoney(page.dollars)} a month more`);
      fill(place, h("p", {}, h("strong", {}, showMoney(page.dollars)), ` a month more, for the periods before ${showMinute(before)}`),
        lineTable(page.lines, `The bill of ${stream} before ${showMinute(before)}`), page.next ? olderPeriods(stream, page.next) : null);
    } catch (error) {
      fill(place, showProblem(error, load));
    }
  }
}

/** What commitments to AWS may save. @param {any[]} discounts */
function discountList(discounts) {
  return discounts.length ? h("ul.notes", {}, discounts.map((line) => h("li", {}, `${line.name} may save ${showMoney(line.dollars)} a month: ${line.how}.`))) : null;
}

/** A bar of the kinds of a row, as long as its share of the greatest. @param {any} row @param {number} most */
function bar(row, most) {
  const amounts = KINDS.map(([kind, lines]) => ({ kind, dollars: sum(row.lines.filter((/** @type {any} */ line) => lines.test(line.name))) })).filter(({ dollars }) => dollars > 0);
  const text = amounts.map(({ kind, dollars }) => `${kind} ${showMoney(dollars)}`).join(", ");
  return h("div.stack", { role: "img", "aria-label": text || "nothing", title: text }, amounts.map(({ kind, dollars }) =>
    h("span", { class: `cost-${kind}`, vars: { share: String(dollars / most) } })));
}

/** The limit that a load meets first. @param {any} wall */
function wallText(wall) {
  const rate = showNumber(Math.floor(wall.events_per_second));
  return h("p.notes", { class: wall.met ? "warn" : "" }, h("strong", {}, wall.met ? "No price: this load meets a wall. " : "The first wall: "),
    `${wall.met ? capitalize(wall.name) : wall.name} takes ${rate} events per second. ${capitalize(wall.how)}.`);
}

/** @param {string} text */
function capitalize(text) {
  return text[0]?.toUpperCase() + text.slice(1);
}

/** Dollars, or words for a load that has no price. @param {number | null} dollars */
function priceText(dollars) {
  return dollars === null ? "no price" : showMoney(dollars);
}

/** @param {any[]} lines */
function sum(lines) {
  return lines.reduce((total, line) => total + line.dollars, 0);
}

/** @param {any[]} lines @param {string} caption */
function lineTable(lines, caption) {
  return showTable([
    { name: "line", cell: (line) => line.name },
    { name: "a month", number: true, cell: (line) => showMoney(line.dollars) },
    { name: "how", cell: (line) => h("span.wrap", {}, line.how) },
  ], lines, { caption });
}

/** @param {HTMLElement} place @param {any} body of /v1/cost @param {URLSearchParams} values @param {AbortSignal} signal */
function drawWhatIf(place, body, values, signal) {
  const written = body.streams.filter((/** @type {any} */ row) => !row.source && !row.removed_since);
  const stream = written.find((/** @type {any} */ row) => row.stream === values.get("stream")) ?? written[0];
  if (!stream) return fill(place, showEmpty("Nothing to compare", "This stage has no stream that accepts events from callers."));
  const question = questionOf(stream, values);
  const answer = h("div.content", {});
  const fields = FIGURES.map(([name, label]) => ({ name, label, input: /** @type {HTMLInputElement} */ (h("input", { name, type: "number", min: "0", step: "any", value: question[name] ?? "", required: name === "rate" })) }));
  const change = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 6, spellcheck: "false", maxlength: 3000, "aria-label": "Proposed lines of tidetable.toml", placeholder: `[streams.${stream.stream}.pack]\nspan = "1h"` }));
  change.value = question.change ?? "";
  const select = /** @type {HTMLSelectElement} */ (h("select", { onchange: (/** @type {any} */ event) => go("cost", { stream: event.target.value }) }, written.map((/** @type {any} */ row) => h("option", { value: row.stream }, row.stream))));
  select.value = stream.stream;
  /** Figures as measured stay out of the address, so that a link shows the present. @param {string} text */
  const price = (text) => go("cost", { stream: stream.stream, change: text.trim(),
    ...Object.fromEntries(fields.map(({ name, input }) => [name, input.value === String(stream.workload?.[name] ?? ASSUMED[name] ?? "") ? "" : input.value])) });
  fill(place, h("h2", {}, "What if"),
    h("form.question", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); price(change.value); } },
      h("label.field", {}, h("span.label", {}, "Stream"), select),
      fields.map(({ label, input }) => h("label.field.figure", {}, h("span.label", {}, label), input)),
      h("label.field.wide", {}, h("span.label", {}, "Lines of tidetable.toml to try: packs, rollups, another ladder, bucket or shards"), change),
      h("button.primary.run", {}, "Price it")),
    stream.workload
      ? h("details", {}, h("summary", {}, "Where these figures come from"), h("ul", {}, stream.workload.how.map((/** @type {string} */ text) => h("li", {}, text))))
      : h("p.notes", {}, "There are too few measurements of this stream yet. Enter the events per second that you expect, and the bytes of an event."),
    answer);
  if (question.rate) ask();

  async function ask() {
    fill(answer, showBusy("Pricing it…"));
    try {
      const { body: found, url } = await get("v1/cost", question, signal);
      if (!signal.aborted) fill(answer, found.after ? comparison(found, url) : alternatives(found, price));
    } catch (error) {
      if (!signal.aborted) fill(answer, showProblem(error, ask));
    }
  }
}

/** The parameters of a load: the address before what was measured. @param {any} stream @param {URLSearchParams} values @returns {Record<string, any>} */
function questionOf(stream, values) {
  const measured = stream.workload ?? {};
  return {
    ...Object.fromEntries(FIGURES.map(([name]) => [name, values.get(name) || String(measured[name] ?? ASSUMED[name] ?? "")])),
    // The size in packs is that of the measured events: of others it is not known.
    packed_bytes: values.get("bytes") ? "" : measured.packed_bytes,
    in_index: measured.in_index ?? [],
    stream: stream.stream,
    change: values.get("change") ?? "",
  };
}

/** @param {any} found of /v1/cost with a load @param {(text: string) => void} price @returns {HTMLElement} */
function alternatives(found, price) {
  return h("div.explain", {},
    found.before.wall.met ? wallText(found.before.wall)
      : h("p", {}, h("strong", {}, `${showMoney(found.before.dollars)} a month`), ` for this load with ${found.stream} as it is configured.`, fixedText(found.before)),
    found.alternatives.length ? showTable([
      { name: "setting", cell: (setting) => h("button.setting", { type: "button", onclick: () => price(setting.toml) }, setting.name) },
      { name: "a month", number: true, cell: (setting) => showMoney(setting.dollars) },
      { name: "saves", number: true, cell: (setting) => savingText(setting.saving) },
      { name: "why", cell: (setting) => h("span.wrap", {}, setting.why) },
    ], found.alternatives, { caption: "Other settings" }) : showEmpty("No other settings", "Write lines above to try a change."),
    found.refused.length ? h("details", {}, h("summary", {}, "Settings that this configuration cannot have"),
      h("ul", {}, found.refused.map((/** @type {any} */ setting) => h("li", {}, h("b", {}, setting.name), `: ${setting.reason}`)))) : null,
    h("p.hint", {}, withCode("`bin/tidetable advise` judges more settings, by what was measured.")),
    plan("The bill of this load", found.before), limits(found));
}

/** @param {any} found of /v1/cost with a load @param {string} url @returns {HTMLElement} */
function comparison(found, url) {
  const names = [...new Set([...found.before.lines, ...found.after.lines].map((line) => line.name))];
  const rows = names.map((name) => {
    const [before, after] = [found.before, found.after].map((bill) => sum(bill.lines.filter((/** @type {any} */ line) => line.name === name)));
    return { name, before, after };
  });
  rows.push({ name: "the stage's metrics and alarms", before: found.before.fixed.dollars, after: found.after.fixed.dollars });
  const impossible = [found.after, found.before].find((bill) => bill.wall.met);
  if (!impossible) rows.push({ name: "in all", before: found.before.dollars + found.before.fixed.dollars, after: found.after.dollars + found.after.fixed.dollars });
  const verdict = impossible ? `${impossible === found.after ? "With the change" : "Without the change"} the stream cannot take this load`
    : Math.abs(found.saving) < 0.005 ? "This costs the same" : found.saving > 0 ? `This saves ${showMoney(found.saving)} a month` : `This costs ${showMoney(-found.saving)} a month more`;
  say(verdict);
  return h("div.explain", {},
    h("p.verdict", { class: impossible === found.after || found.saving < -0.005 ? "dearer" : "cheaper", role: "status" }, h("strong", {}, verdict), `: ${priceText(found.after.dollars)} instead of ${priceText(found.before.dollars)}.`),
    impossible ? wallText(impossible.wall) : null,
    showTable([
      { name: "line", cell: (row) => row.name },
      { name: "before", number: true, cell: (row) => showMoney(row.before) },
      { name: "after", number: true, cell: (row) => showMoney(row.after) },
      { name: "saves", number: true, cell: (row) => savingText(row.before - row.after) },
    ], rows, { caption: "Before and after" }),
    h("p", {}, "In tidetable.toml, replace the stream's own lines by these lines, and deploy. A change of the layout, such as packs, holds for tables that are made after the deploy."),
    h("pre.json", { tabindex: 0 }, found.change),
    h("div.buttons", {}, copyButton("Copy the lines", found.change), copyButton("curl", curlOf(url)), copyButton("Link", location.href), h("a.button", { href: hashOf("cost", { stream: found.stream }) }, "Other settings")),
    plan("Before: lines and days", found.before), plan("After: lines and days", found.after), limits(found));
}

/** @param {string} title @param {any} bill @returns {HTMLElement} */
function plan(title, bill) {
  if (bill.wall.met) return h("details", {}, h("summary", {}, title), wallText(bill.wall));
  return h("details", {}, h("summary", {}, title), lineTable(bill.lines, title),
    bill.days.length ? h("div", {}, h("p.hint", {}, "The tables from an empty start, and DynamoDB's price of the day:"), showTable([
      ...["day", "tables", "ahead", "open", "late", "closed"].map((name) => ({ name, number: true, cell: (/** @type {any} */ day) => showNumber(day[name]) })),
      { name: "write units", number: true, cell: (day) => showNumber(day.write) },
      { name: "read units", number: true, cell: (day) => showNumber(day.read) },
      { name: "infrequent", number: true, cell: (day) => showNumber(day.infrequent) },
      { name: "a day", number: true, cell: (day) => showMoney(day.dollars) },
    ], bill.days, { caption: `${title}, by day` })) : h("p.hint", {}, withCode("There are too many tables to show their days here: `bin/tidetable cost --days 90` does.")),
    wallText(bill.wall), discountList(bill.discounts),
    bill.advice.length ? h("ul.notes", {}, bill.advice.map((/** @type {string} */ text) => h("li", {}, text))) : null);
}

/** @param {any} found */
function limits(found) {
  const texts = (found.after ?? found.before).not_priced;
  return h("div", {}, h("p.hint", {}, `${pricesText(found.prices)} The load is taken as steady over the day.`),
    h("details", {}, h("summary", {}, "Costs that these prices do not include"), h("ul", {}, texts.map((/** @type {string} */ text) => h("li", {}, text)))));
}

/** @param {any} bill */
function fixedText(bill) {
  return ` Metrics and alarms of the stage cost ${showMoney(bill.fixed.dollars)} besides.`;
}

/** @param {number | null} dollars */
function savingText(dollars) {
  return dollars === null || Math.abs(dollars) < 0.005 ? "–" : showMoney(dollars);
}

/** @param {string} label @param {string} text */
function copyButton(label, text) {
  const button = h("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser does not allow copying";
    }
    say(button.textContent ?? "");
    setTimeout(() => (button.textContent = label), 2500);
  } }, label);
  return button;
}
