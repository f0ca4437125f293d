import { address, get, getText, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { flatten, showNumber, showValue } from "../format.js";
import { copyMenu } from "../parts/copy.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { rangePicker } from "../parts/range.js";
import { showTable } from "../parts/table.js";
import { go, goAgain } from "../state.js";
import { showTime } from "../times.js";
import { openEvent } from "./event.js";

/** The first events of an index that is sorted by a number. @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams @param {AbortSignal} signal */
export function showRanking(place, values, streams, signal) {
  const ranked = streams.filter((stream) => rankingsOf(stream).length);
  const stream = ranked.find((each) => each.stream === values.get("stream")) ?? ranked[0];
  if (!stream) {
    fill(place, h("h1", {}, "Rankings"), showEmpty("No stream has a ranking", "An index with sort_by = a field is one: docs/design/indexes.md."));
    return;
  }
  const rankings = rankingsOf(stream);
  const question = { stream: stream.stream, index: values.get("index") || rankings[0].name, value: values.get("value") ?? "", from: values.get("from") ?? "-7d",
    to: values.get("to") ?? "", order: values.get("order") ?? "desc", limit: values.get("limit") ?? "20" };
  const index = rankings.find((/** @type {any} */ each) => each.name === question.index) ?? rankings[0];
  /** Of an index that several kinds of events share, a ranking is of one kind. @type {string[]} */
  const kinds = index.kinds ?? [];
  const kind = kinds.find((each) => each === values.get("kind")) ?? kinds[0] ?? "";
  const by = valueOf(stream, index);
  const result = h("section.result");
  /** @param {Record<string, string>} changes */
  const change = (changes) => go("rankings", "stream" in changes ? { stream: changes.stream } : { ...question, kind, ...changes });
  fill(place, h("form.question", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); goAgain(); } },
    pick("Stream", ranked.map((each) => each.stream), question.stream, (name) => change({ stream: name })),
    pick("Ranking", rankings.map((/** @type {any} */ each) => each.name), index.name, (name) => change({ index: name, value: "", kind: "" })),
    kinds.length ? pick("Kind", kinds, kind, (name) => change({ kind: name, value: "" })) : null,
    by === null ? null : h("label.field", {}, h("span.label", {}, by),
      h("input", { value: question.value, placeholder: "a value", onchange: (/** @type {any} */ event) => change({ value: event.target.value }) })),
    rangePicker(question.from, question.to, (from, to) => change({ from, to })),
    pick("Order", [["desc", "highest first"], ["asc", "lowest first"]], question.order, (order) => change({ order })),
    pick("Show", ["10", "20", "100", "1000"], question.limit, (limit) => change({ limit })),
    h("button.primary.run", {}, "Run")), result);
  if (by !== null && !question.value) fill(result, showEmpty(`Which ${by}?`, `The ranking ${index.name} is kept for each ${by === "series" ? by : kinds.length ? "kind of events, and each value of its field" : `value of ${by}`}.`));
  else ask();

  async function ask() {
    fill(result, showBusy());
    const path = streamPath(question.stream, "top");
    const parameters = { index: question.index, kind, value: question.value, from: question.from, to: question.to, order: question.order === "asc" ? "asc" : "", limit: question.limit };
    try {
      const { body, units } = await get(path, parameters, signal);
      if (signal.aborted) return;
      const most = Math.max(...body.top.map((/** @type {any} */ row) => Math.abs(Number(row.value))), Number.MIN_VALUE);
      fill(result, h("div.resultbar", {}, h("span.cost", {}, units === null ? "" : `${showNumber(units)} read units`),
        copyMenu(address(path, parameters), () => getText(path, { ...parameters, format: "csv" }), `${question.stream}-top.csv`)),
        body.tied ? h("p.notes", {}, "More events share the last number than are shown.") : null,
        body.top.length ? showTable([
          { name: "#", number: true, cell: (row) => row.rank },
          { name: index.sort_by, cell: (row) => h("div.meter", { vars: { share: String(Math.abs(Number(row.value)) / most) } }, h("span", {}, showNumber(row.value))) },
          { name: "series", cell: (row) => row.series },
          { name: "time", cell: (row) => showTime(row.time) },
          { name: "data", cell: (row) => h("span.pairs", {}, Object.entries(flatten(row.data)).filter(([name]) => name !== index.sort_by).slice(0, 6).map(([name, value]) => h("span", {}, h("i", {}, name), " ", showValue(value)))) },
        ], body.top, { caption: `Ranking ${index.name}`, open: (row) => openEvent(stream, row) }) : showEmpty("No event is ranked in this range", "Choose a longer range."));
    } catch (error) {
      if (!signal.aborted) fill(result, showProblem(error, ask));
    }
  }
}

/** @param {any} stream */
function rankingsOf(stream) {
  return (stream.indexes ?? []).filter((/** @type {any} */ index) => typeof index.sort_by === "string" && index.sort_by !== "time");
}

/** What a ranking needs a value of, or null for a ranking of all events. A local ranking has the partitions of its table.
 * @param {any} stream @param {any} index */
function valueOf(stream, index) {
  if (index.local) return stream.layout.partition_by === "series" ? "series" : null;
  if (index.kinds) return "value";
  return index.partition_by === "*" ? null : index.partition_by;
}

/** @param {string} label @param {(string | string[])[]} options @param {string} value @param {(value: string) => void} changed */
function pick(label, options, value, changed) {
  const select = h("select", { onchange: (/** @type {any} */ event) => changed(event.target.value) },
    options.map((option) => (Array.isArray(option) ? h("option", { value: option[0] }, option[1]) : h("option", { value: option }, option))));
  /** @type {HTMLSelectElement} */ (select).value = value;
  return h("label.field", {}, h("span.label", {}, label), select);
}
