import { get, Problem, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { flatten, showValue } from "../format.js";
import { showBusy, showEmpty, showProblem } from "../parts/problem.js";
import { findsLatest, listsSeries, seriesField } from "../parts/series.js";
import { go } from "../state.js";
import { showTime } from "../times.js";
import { openEvent } from "./event.js";

/** The latest event of each of some series. @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams @param {AbortSignal} signal */
export function showLatest(place, values, streams, signal) {
  const fitting = streams.filter((each) => findsLatest(each.layout));
  const stream = fitting.find((each) => each.stream === values.get("stream")) ?? fitting[0];
  if (!stream) return fill(place, showEmpty("No stream finds the latest event of a series", "Streams that are partitioned by series find it, and packs with shard_by = \"series\". Explore shows the newest events of the other streams."));
  const series = values.get("series") ?? "";
  const result = h("section.result");
  const select = h("select", { onchange: (/** @type {any} */ event) => go("latest", { stream: event.target.value }) }, fitting.map((each) => h("option", { value: each.stream }, each.stream)));
  /** @type {HTMLSelectElement} */ (select).value = stream.stream;
  fill(place, h("form.question", { onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    h("label.field", {}, h("span.label", {}, "Stream"), select),
    seriesField(stream, series, (text) => go("latest", { stream: stream.stream, series: text }), { placeholder: "all, or a, b, c", label: "Series" })), result);
  ask();

  async function ask() {
    fill(result, showBusy());
    try {
      const names = series ? series.split(",").map((name) => name.trim()).filter(Boolean) : await firstSeries();
      if (signal.aborted) return;
      if (!names.length) return fill(result, showEmpty("Which series?", listsSeries(stream) ? "The list of series is still empty. Type the names of series." : "Type the names of series. A rollup by series would suggest them."));
      const { body } = await get(streamPath(stream.stream, "latest"), { series: names.slice(0, 100) }, signal);
      if (!signal.aborted) show(body.latest, body.searched_back_to);
    } catch (error) {
      if (!signal.aborted) fill(result, showProblem(error, ask));
    }
  }

  /** Show the events. If the search stopped before all series were found, a button continues it. @param {any[]} rows @param {string | null} back */
  function show(rows, back) {
    const rest = rows.filter((row) => row.stopped).map((row) => row.series);
    fill(result, h("div.cards", {}, rows.map(card)), h("p.hint", {}, back ? `Searched back to ${showTime(back)}.` : "No table could be searched: no table finds the latest event of a series yet."),
      rest.length ? h("button", { type: "button", onclick: () => goOn(rows, rest, back) }, "Search older tables") : null);
  }

  /** @param {any[]} rows @param {string[]} rest @param {string | null} before */
  async function goOn(rows, rest, before) {
    fill(result, showBusy());
    try {
      const { body } = await get(streamPath(stream.stream, "latest"), { series: rest, before }, signal);
      const found = new Map(body.latest.map((/** @type {any} */ row) => [row.series, row]));
      if (!signal.aborted) show(rows.map((row) => found.get(row.series) ?? row), body.searched_back_to ?? before);
    } catch (error) {
      if (!signal.aborted) fill(result, showProblem(error, () => goOn(rows, rest, before)));
    }
  }

  /** @returns {Promise<string[]>} */
  async function firstSeries() {
    if (!listsSeries(stream)) return [];
    try {
      const { body } = await get(streamPath(stream.stream, "series"), { limit: 24 }, signal);
      return body.series.map((/** @type {any} */ row) => row.series);
    } catch (error) {
      // Of a stream that is new, or has no sealed step yet, nobody knows the series.
      if (error instanceof Problem && error.code === "needs_series") return [];
      throw error;
    }
  }

  /** @param {any} row */
  function card(row) {
    if (!row.event) return h("div.card", {}, h("strong", {}, row.series), h("span.hint", {}, row.stopped ? "no event yet: older tables were not searched" : "no event in any table"));
    const facts = Object.entries(flatten(row.event.data)).slice(0, 6);
    return h("button.card", { type: "button", onclick: () => openEvent(stream, row.event) },
      h("strong", {}, row.series), h("time.hint", { datetime: row.event.time }, showTime(row.event.time)),
      h("dl.facts", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, showValue(value))]).flat()));
  }
}
