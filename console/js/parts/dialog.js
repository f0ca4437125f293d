import { h } from "../dom.js";

/**
 * Show a dialog; Escape, its button and a click beside it close it.
 * @param {string} title @param {...(Node | string)} content @returns {HTMLDialogElement}
 */
export function showDialog(title, ...content) {
  const close = h("button.quiet", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "✕");
  const dialog = /** @type {HTMLDialogElement} */ (
    h("dialog", { "aria-label": title }, h("header", {}, h("h2", {}, title), close), h("div.content", {}, ...content))
  );
  // The browser takes for a click beside the dialog also the end of a drag that began in its text.
  let beside = false;
  dialog.addEventListener("mousedown", (event) => (beside = event.target === dialog));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && beside) dialog.close();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.getElementById("dialogs")?.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Facts as a list of names and values; null values are left out.
 * @param {Record<string, Node | string | number | null | undefined>} facts @returns {HTMLElement}
 */
export function showFacts(facts) {
  const rows = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl.facts", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]).flat());
}
