import { get, streamPath } from "../api.js";
import { fill, h } from "../dom.js";
import { showDialog, showFacts } from "../parts/dialog.js";
import { showBusy, showProblem } from "../parts/problem.js";
import { showTime } from "../times.js";

/** Show one event, whole, with its versions. @param {any} stream of /v1/streams @param {any} event */
export function openEvent(stream, event) {
  const place = h("div", {}, show(event));
  showDialog(`${event.series}, ${showTime(event.time)}`, place);
  if (event.ref) load();

  async function load() {
    const busy = showBusy("Reading the whole event…");
    place.append(busy);
    try {
      const parameters = { fields: "*", versions: stream.versions === "keep" ? "all" : "" };
      const { body } = await get(streamPath(stream.stream, "events", event.ref), parameters);
      fill(place, show(body), versions(body), h("p.hint.whole", {}, "As it is stored now, with its cold fields."));
    } catch (error) {
      busy.replaceWith(showProblem(error, load));
    }
  }
}

/** @param {any} event */
function show(event) {
  return h("div", {},
    showFacts({ series: event.series, time: event.time, id: event.id, version: event.version, accepted: event.accepted,
      incomplete: event.incomplete ? "Its data is damaged or gone." : null }),
    h("pre.json", {}, JSON.stringify(event.data, null, 2)));
}

/** @param {any} event */
function versions(event) {
  if (!event.versions?.length) return null;
  return h("section", {}, h("h3", {}, "Earlier versions"),
    event.versions.map((/** @type {any} */ version) => h("details", {},
      h("summary", {}, `Version ${version.version}, accepted ${showTime(version.accepted)}`), h("pre.json", {}, JSON.stringify(version.data, null, 2)))));
}
