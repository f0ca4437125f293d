import { key } from "../api.js";
import { h, say } from "../dom.js";

/** The request as a curl command; the key is a variable, because commands end in histories. @param {string} url */
export function curlOf(url) {
  return `curl --compressed${key() ? ' -H "x-api-key: $TIDETABLE_KEY"' : ""} ${quote(url)}`;
}

/** The request as Python of the standard library. @param {string} url */
export function pythonOf(url) {
  const headers = key() ? ', headers={"x-api-key": os.environ["TIDETABLE_KEY"]}' : "";
  return ["import json, os", "from urllib.request import Request, urlopen", "",
    `request = Request(${JSON.stringify(url)}${headers})`, "answer = json.load(urlopen(request))", ""].join("\n");
}

/** For a POSIX shell. @param {string} text */
function quote(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Buttons that copy a request, or save its answer as CSV.
 * @param {string} url @param {() => Promise<string>} csv @param {string} name @returns {HTMLElement}
 */
export function copyMenu(url, csv, name) {
  const said = h("span.hint", { role: "status" });
  /** @param {string} text @param {string} what */
  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = `${what} copied`;
    } catch {
      said.textContent = "The browser does not allow copying";
    }
    say(said.textContent);
    setTimeout(() => (said.textContent = ""), 2500);
  };
  const save = async () => {
    said.textContent = "Reading…";
    try {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await csv()], { type: "text/csv" }));
      link.download = name;
      link.click();
      URL.revokeObjectURL(link.href);
      said.textContent = "";
    } catch (error) {
      said.textContent = String(/** @type {any} */ (error).message);
    }
  };
  return h("div.copy", {}, said,
    h("button.quiet", { type: "button", onclick: () => copy(curlOf(url), "curl command") }, "curl"),
    h("button.quiet", { type: "button", onclick: () => copy(pythonOf(url), "Python") }, "Python"),
    h("button.quiet", { type: "button", onclick: () => copy(location.href, "Address") }, "Link"),
    h("button.quiet", { type: "button", onclick: save }, "CSV"));
}
