import { get, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { prefixOfKey } from "../rights.js";

let lists = 0;

/** Whether anybody knows the series of a stream: only a rollup by series does. @param {any} stream of /v1/streams */
export function listsSeries(stream) {
  return Boolean(stream?.rollups?.some((/** @type {any} */ rollup) => rollup.by.includes("series")));
}

/** Whether the latest event of a series is found without a scan: in a table by series, or in packs by the suffix of the series. @param {any} layout of a stream */
export function findsLatest(layout) {
  return layout.partition_by === "series" || Boolean(layout.pack && layout.shard_by === "series");
}

/**
 * A field for series, with suggestions from the series route while one types.
 * @param {any} stream of /v1/streams @param {string} value @param {(text: string) => void} changed @param {{ placeholder?: string, label?: string, kind?: string }} [options]
 * @returns {HTMLElement}
 */
export function seriesField(stream, value, changed, options = {}) {
  const list = h("datalist", { id: `series-${(lists += 1)}` });
  const input = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", value, list: list.id, placeholder: prefixOfKey() ? `${prefixOfKey()}…` : (options.placeholder ?? "all"), name: "series", autocomplete: "off", spellcheck: "false" })
  );
  let timer = 0;
  let listed = "\0";
  const suggest = async () => {
    const prefix = input.value.split(",").pop()?.trim() ?? "";
    if (prefix === listed || !listsSeries(stream)) return;
    listed = prefix;
    try {
      const { body } = await get(streamPath(stream.stream, "series"), { prefix, limit: 50 });
      fill(list, body.series.map((/** @type {any} */ row) => h("option", { value: row.series })));
    } catch {
      // The field works without suggestions.
    }
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(suggest, 250);
  });
  input.addEventListener("focus", suggest);
  input.addEventListener("change", () => changed(input.value.trim()));
  return h("label.field", { class: options.kind ?? "" }, h("span.label", {}, options.label ?? "Series"), input, list);
}
