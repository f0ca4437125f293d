import { get, streamPath } from "../api.js";
import { fill, h, say } from "../dom.js";
import { plural, writeJson } from "../format.js";
import { showDialog, showFacts } from "../parts/dialog.js";
import { compareValues } from "../parts/differences.js";
import { showBusy, showProblem } from "../parts/problem.js";
import { showTable } from "../parts/table.js";
import { showTime } from "../times.js";

/** Show one event, whole, with its versions. @param {any} stream of /v1/streams @param {any} event */
export function openEvent(stream, event) {
  const place = h("div", {}, show(event));
  const keeps = stream.versions === "keep";
  /** Versions, the newest first. @type {any[]} */
  const versions = [];
  showDialog(`${event.series}, ${showTime(event.time)}`, place);
  if (event.ref) load("");

  /** @param {string | number} version the newest that is read; empty for the newest of all */
  async function load(version) {
    const busy = showBusy(version ? "Reading older versions…" : "Reading the whole event…");
    place.append(busy);
    try {
      const { body } = await get(streamPath(stream.stream, "events", event.ref), { fields: "*", versions: keeps ? "all" : "", version });
      versions.push(body, ...(body.versions ?? []));
      const older = body.versions_left_out ?? body.versions?.at(-1)?.versions_left_out;
      fill(place, show(versions[0]), keeps ? showVersions(versions) : null,
        older ? h("button", { type: "button", onclick: () => load(older) }, `Show older versions (${plural(older, "more version")})`) : null,
        h("p.hint.whole", {}, "As it is stored now, with its cold fields."));
    } catch (error) {
      busy.replaceWith(showProblem(error, () => load(version)));
    }
  }
}

/** @param {any} event */
function show(event) {
  return h("div", {},
    showFacts({ series: event.series, time: event.time, id: event.id, version: event.version, accepted: event.accepted,
      incomplete: event.incomplete ? "Its data is damaged or missing." : null }),
    h("pre.json", {}, writeJson(event.data, 2)));
}

/** A list from which two versions are chosen, and what they differ in. @param {any[]} versions the newest first */
function showVersions(versions) {
  if (versions.length < 2) return h("p.hint", {}, "This event has one version.");
  const place = h("div", { role: "status" });
  let [before, after] = [1, 0];

  /** @param {"before" | "after"} side @param {number} number */
  const choose = (side, number) => h("input", { type: "radio", name: side, checked: number === (side === "before" ? before : after),
    "aria-label": `${side === "before" ? "From" : "To"} version ${versions[number].version}`,
    onchange: () => {
      if (side === "before") before = number;
      else after = number;
      compare();
    } });

  function compare() {
    const differences = compareValues(versions[before].data, versions[after].data);
    const title = `From version ${versions[before].version} to version ${versions[after].version}`;
    fill(place, h("h4", {}, `${title}: ${differences.length ? plural(differences.length, "difference") : "the same data"}`),
      differences.length ? showTable([
        { name: "field", cell: ({ path, kind }) => h("span", { class: `difference ${kind}` }, h("span.sign", { "aria-hidden": "true" }, SIGNS[kind]), h("code", {}, path || "(everything)")) },
        { name: "what", cell: ({ kind }) => kind },
        { name: "before", cell: (row) => valueOf(row, "before") },
        { name: "after", cell: (row) => valueOf(row, "after") },
      ], differences, { caption: title }) : null);
    say(`${title}: ${plural(differences.length, "difference")}`);
  }

  const list = h("table.versions", {}, h("caption.visually-hidden", {}, "Versions"),
    h("thead", {}, h("tr", {}, ["from", "to", "version", "accepted"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, versions.map((version, number) => h("tr", {}, h("td", {}, choose("before", number)), h("td", {}, choose("after", number)),
      h("td", {}, h("details", {}, h("summary", {}, `${version.version}${number ? "" : " (newest)"}`), h("pre.json", {}, writeJson(version.data, 2)))),
      h("td", {}, h("time", { datetime: version.accepted }, showTime(version.accepted)))))));
  compare();
  return h("section.compare", {}, h("h3", {}, plural(versions.length, "version")), h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Versions" }, list), place);
}

const SIGNS = /** @type {Record<string, string>} */ ({ added: "+", removed: "−", changed: "≠" });

/** JSON, in which text and number differ. @param {any} difference @param {"before" | "after"} side */
function valueOf(difference, side) {
  return side in difference ? h("code", {}, writeJson(difference[side])) : "";
}
