import { h } from "../dom.js";

/**
 * What is awaited, since how many seconds, and a button that gives up waiting. It lies over the former answer, so nothing moves.
 * @param {string} what @param {() => void} cancel @returns {HTMLElement & { done: () => void }}
 */
export function showWait(what, cancel) {
  const begun = performance.now();
  const seconds = h("span.seconds", { "aria-hidden": "true" });
  const place = /** @type {any} */ (h("div.wait.busy", { role: "status" }, h("span.wave"), h("span", {}, what), seconds,
    h("button", { type: "button", onclick: cancel }, "Cancel")));
  const timer = setInterval(() => {
    const passed = (performance.now() - begun) / 1000;
    if (passed >= 1) seconds.textContent = ` ${Math.floor(passed)} s`;
    if (!place.isConnected) clearInterval(timer);
  }, 250);
  place.done = () => {
    clearInterval(timer);
    place.remove();
  };
  return place;
}
