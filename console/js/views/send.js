import { post, streamPath } from "../api.js";
import { fill, h, say, withCode } from "../dom.js";
import { plural } from "../format.js";
import { showEmpty, showProblem } from "../parts/problem.js";
import { prefixOfKey } from "../rights.js";
import { go } from "../state.js";
import { showTime } from "../times.js";

const EXAMPLE = '{"series": "sensor-1", "data": {"temperature": 21.5}}\n{"series": "sensor-2", "data": {"temperature": 19.8}}';

/** Send events, and see the verdict on each. @param {HTMLElement} place @param {URLSearchParams} values @param {any[]} streams */
export function showSend(place, values, streams) {
  const stream = streams.find((each) => each.stream === values.get("stream")) ?? streams[0];
  if (!stream) return fill(place, showEmpty("No streams", "tidetable.toml names the streams of a stage."));
  const text = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 12, spellcheck: "false", placeholder: EXAMPLE, "aria-label": "Events" }));
  const strict = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
  const select = h("select", { onchange: (/** @type {any} */ event) => go("send", { stream: event.target.value }) }, streams.map((each) => h("option", { value: each.stream }, each.stream)));
  /** @type {HTMLSelectElement} */ (select).value = stream.stream;
  const button = /** @type {HTMLButtonElement} */ (h("button.primary", {}, "Send"));
  const result = h("section.result");
  fill(place,
    h("form.send", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(); } },
      h("div.question", {}, h("label.field", {}, h("span.label", {}, "Stream"), select),
        h("label.check", {}, strict, "all or nothing"), button),
      h("p.hint", {}, `A JSON event, an array, or an event per line. Times from ${showTime(stream.window.oldest)} to ${showTime(stream.window.newest)} are taken; without a time, an event gets the time of arrival.${prefixOfKey() ? ` This key sends to series that begin with “${prefixOfKey()}”.` : ""}`),
      text), result);

  async function send() {
    const body = text.value.trim();
    if (!body) return fill(result, showEmpty("Nothing to send", "Paste events into the field above."));
    const { events, type } = readBody(body);
    button.disabled = true;
    try {
      show(await post(streamPath(stream.stream, "events"), body, type, strict.checked), events);
    } catch (error) {
      fill(result, showProblem(error, send));
    } finally {
      button.disabled = false;
    }
  }

  /** @param {any} answer @param {string[]} events */
  function show(answer, events) {
    const errors = new Map((answer.errors ?? []).map((/** @type {any} */ error) => [error.index, error]));
    const title = answer.accepted === undefined
      ? `${answer.detail ?? "Nothing was stored."}`
      : `${plural(answer.accepted, "event")} accepted${answer.queued ? `, ${answer.queued} of them queued` : ""}${answer.rejected ? `, ${answer.rejected} refused` : ""}.`;
    say(title);
    fill(result, h("p.notes", { role: "status" }, title), h("ol.verdicts", {}, events.map((event, index) => {
      const error = /** @type {any} */ (errors.get(index));
      const stored = answer.accepted !== undefined && !error;
      return h("li", { class: error ? "refused" : stored ? "stored" : "skipped" },
        h("span.mark", {}, error ? "✕ refused" : stored ? "✓ accepted" : "– not stored"), h("code", {}, event.slice(0, 300)), error ? h("p.remedy", {}, h("b", {}, error.code), ": ", withCode(error.detail)) : null);
    })));
  }
}

/** The events of a body as lines, in the order of the request. @param {string} body @returns {{ events: string[], type: string }} */
export function readBody(body) {
  try {
    const value = JSON.parse(body);
    const events = Array.isArray(value) ? value : Array.isArray(value?.events) ? value.events : [value];
    return { events: events.map((/** @type {unknown} */ event) => JSON.stringify(event)), type: "application/json" };
  } catch {
    return { events: body.split("\n").filter((line) => line.trim()), type: "application/x-ndjson" };
  }
}
