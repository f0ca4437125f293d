import { get, key, Problem, REFUSED, setKey } from "./api.js";
import { fill, h, keepFocus, withCode } from "./dom.js";
import { showDialog } from "./parts/dialog.js";
import { showBusy, showEmpty, showProblem } from "./parts/problem.js";
import { forgetRecent } from "./parts/recent.js";
import { commandFor, lackOf, setAccess } from "./rights.js";
import { hashOf, readState } from "./state.js";
import { setZone, zone, zoneName } from "./times.js";
import { showCost } from "./views/cost.js";
import { showExplore } from "./views/explore.js";
import { showLatest } from "./views/latest.js";
import { showNow } from "./views/now.js";
import { showRanking } from "./views/ranking.js";
import { showRunbook } from "./views/runbook.js";
import { showSend } from "./views/send.js";
import { showTide } from "./views/tide.js";

/** @typedef {(place: HTMLElement, values: URLSearchParams, streams: any[], signal: AbortSignal, can: string[]) => void} View */

/** @type {Record<string, { title: string, show: View }>} */
const VIEWS = {
  now: { title: "Now", show: showNow },
  tide: { title: "Tide", show: showTide },
  explore: { title: "Explore", show: showExplore },
  rankings: { title: "Rankings", show: showRanking },
  latest: { title: "Latest", show: showLatest },
  send: { title: "Send", show: showSend },
  cost: { title: "Cost", show: showCost },
};
// It has an address, and no tab: troubles and alarms link to its sections.
Object.defineProperty(VIEWS, "runbook", { value: { title: "Runbook", show: showRunbook } });
const THEME = "tidetable.theme";
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
let shown = new AbortController();
/** @type {any[] | null} */
let streams = null;
let checking = false;
/** What the key may do. @type {string[]} */
let can = [];

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { view, values } = readState();
  try {
    if (!streams) {
      drawTabs(VIEWS[view] ? view : "now");
      fill(main, showBusy("Reading the list of streams…"));
      const { body } = await get("v1/streams");
      // It may be the answer to a former key.
      if (signal.aborted) return;
      [streams, can] = [body.streams, body.can];
      setAccess(body);
    }
    // A key that may not look at tables begins with what it may do.
    const chosen = VIEWS[view] ? view : (Object.keys(VIEWS).find((name) => !lackOf(name)) ?? "now");
    drawTabs(chosen);
    document.title = `${VIEWS[chosen].title} – Tidetable`;
    const lack = lackOf(chosen);
    if (lack) fill(main, showLack(chosen, lack));
    else keepFocus(main, () => VIEWS[chosen].show(main, values, streams ?? [], signal, can));
  } catch (error) {
    if (signal.aborted) return;
    const refused = error instanceof Problem && [401, 403].includes(error.status);
    fill(main, refused ? showRefused(error) : showProblem(error, show));
    if (refused) openKey(key() ? "This key was refused." : "");
  }
}

/** What a key cannot see, and where it can go from here. @param {string} view @param {{ text: string, needs: string }} lack */
function showLack(view, { text, needs }) {
  const open = Object.entries(VIEWS).filter(([name]) => !lackOf(name));
  return showEmpty(`${VIEWS[view].title} is closed to this key`, text,
    needs ? h("p", {}, `It needs the right “${needs}”. An operator of the stage makes such a key:`) : null,
    needs ? h("pre.command", { tabindex: 0 }, commandFor(needs)) : null,
    h("p.links", {}, open.map(([name, { title }]) => h("a.button", { href: hashOf(name, {}) }, title)),
      h("button", { type: "button", onclick: () => openKey("") }, "Use another key")));
}

/** The API does not say why it refuses a key; its access log does. @param {Problem} error */
function showRefused(error) {
  const reasons = ["It has a typing mistake, or is cut short.", "It has expired, or was revoked or rotated: `bin/tidetable keys list` shows when.", "It is a key of another stage.", "Its streams are not in this stage any more."];
  return h("div.empty", {}, h("strong", {}, key() ? "This key opens nothing here" : "The API needs a key"),
    key() ? h("ul.reasons", {}, reasons.map((reason) => h("li", {}, withCode(reason)))) : h("p", {}, withCode("An operator of the stage can make a key with `bin/tidetable keys create`.")),
    key() ? h("p", {}, "The API does not say which reason it is. The operators of the stage find it in the access log.") : null,
    h("p.links", {}, h("button.primary", { type: "button", onclick: () => openKey("") }, key() ? "Use another key" : "Enter a key"), h("button", { type: "button", onclick: show }, "Try again")),
    h("p.hint", {}, `${error.status} ${error.code}`));
}

/** A refusal of a view may be a key that ended meanwhile: then every request is refused. */
async function checkKey() {
  if (!streams || checking || document.querySelector("dialog[open]")) return;
  const before = key();
  checking = true;
  try {
    const { body } = await get("v1/streams");
    if (key() === before) setAccess(body);
  } catch (error) {
    if (!(error instanceof Problem) || ![401, 403].includes(error.status) || key() !== before) return;
    shown.abort();
    streams = null;
    fill(main, showRefused(error));
    openKey("This key is not accepted any more.");
  } finally {
    checking = false;
  }
}

/** @param {string} current */
function drawTabs(current) {
  const place = /** @type {HTMLElement} */ (document.getElementById("tabs"));
  keepFocus(place, () => fill(place, Object.entries(VIEWS).map(([name, view]) =>
    h("a", { href: `#${name}`, "aria-current": name === current ? "page" : null, class: streams && lackOf(name) ? "closed" : "",
      title: streams ? lackOf(name)?.text : null }, view.title))));
}

function drawTools() {
  const place = /** @type {HTMLElement} */ (document.getElementById("tools"));
  // The texts change, so the focus finds its button by a name.
  keepFocus(place, () => fill(place,
    h("button.quiet", { type: "button", name: "zone", title: `Times, days and weeks are those of ${zoneName()}`, onclick: () => { setZone(zone() === "utc" ? "local" : "utc"); drawTools(); show(); } }, zone() === "utc" ? "UTC" : "Local time"),
    h("button.quiet", { type: "button", name: "theme", "aria-label": "Light or dark", onclick: () => setTheme(isDark() ? "light" : "dark") }, isDark() ? "☀" : "☾"),
    h("button.quiet", { type: "button", name: "key", "aria-pressed": String(Boolean(key())), onclick: () => openKey("") }, key() ? "Key ✓" : "Key")));
}

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
  drawTools();
  show();
}

/** @param {string} reason */
function openKey(reason) {
  if (document.querySelector("dialog[open]")) return;
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "password", autocomplete: "off", spellcheck: "false", value: key(), "aria-label": "Key" }));
  const use = () => {
    setKey(input.value.trim());
    if (!key()) forgetRecent();
    streams = null;
    dialog.close();
    drawTools();
    show();
  };
  const dialog = showDialog("Key",
    h("form.keyform", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); use(); } },
      reason ? h("p.remedy", { role: "alert" }, reason) : null,
      h("p", {}, "The key stays in this tab until you close the tab. The page sends it to this API only."),
      h("label.field", {}, h("span.label", {}, "Key of the API"), input),
      h("div.buttons", {}, h("button.primary", {}, "Use this key"),
        key() ? h("button", { type: "button", onclick: () => { input.value = ""; use(); } }, "Forget it") : null)));
  input.focus();
}

const theme = localStorage.getItem(THEME);
if (theme) document.documentElement.dataset.theme = theme;
window.addEventListener("hashchange", show);
// Its address would be taken for a view's.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener(REFUSED, checkKey);
document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog")) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  if (name && !event.ctrlKey && !event.metaKey && !event.altKey) location.hash = name;
});
drawTools();
show();
