// What the key of this tab may do, as /v1/streams says it. The API decides; the console explains before it asks.

/** @typedef {{ can: string[], prefix: string, streams: string[] }} Access */

/** @type {Access} */
let access = { can: ["write", "read", "operate"], prefix: "", streams: [] };

/** @param {any} body of /v1/streams */
export function setAccess(body) {
  access = { can: body.can ?? [], prefix: body.series_prefix ?? "", streams: (body.streams ?? []).map((/** @type {any} */ stream) => stream.stream) };
}

/** The beginning of every series that the key may write and read; empty if there is none. */
export function prefixOfKey() {
  return access.prefix;
}

/** Whether the key may do this. @param {string} scope */
export function may(scope) {
  return access.can.includes(scope);
}

/**
 * Why a view is closed to the key, and the right that opens it; null if it is open.
 * @param {string} view @returns {{ text: string, needs: string } | null}
 */
export function lackOf(view) {
  if (view === "send") return may("write") ? null : { text: "This key may not send events.", needs: "write" };
  if (view === "runbook") return null;
  if (view === "cost") return may("operate") ? null : { text: "The bill is for the operators of the stage.", needs: "operate" };
  if (view === "now" || view === "tide") {
    if (may("operate") || (may("read") && !access.prefix)) return null;
    if (access.prefix) return { text: `${only()} ${view === "now" ? "Now shows how fast all series together come" : "Tide shows the sizes and states of whole tables, which hold the series of others, too"}.`, needs: "operate" };
    return { text: "This key may not look at tables.", needs: "read" };
  }
  if (!may("read")) return { text: "This key may not read events.", needs: "read" };
  if (view === "rankings" && access.prefix) return { text: `${only()} A ranking reads all series at once.`, needs: "" };
  return null;
}

/** The sentence about a key that is confined to some series. */
export function only() {
  return `This key is for series that begin with “${access.prefix}”.`;
}

/** The command that makes a key with a right, for all streams that this key sees. @param {string} right */
export function commandFor(right) {
  const streams = access.streams.map((name) => ` --stream ${name}`).join("");
  return `bin/tidetable keys create --name me${streams || " --all-streams"} --can ${[...new Set([...access.can, right])].join(",")}`;
}
