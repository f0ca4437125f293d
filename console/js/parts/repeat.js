// Something that is done again and again, as long as somebody looks.

/**
 * Do something at once, and again after a pause. A turn begins only when the former is over, and none while the page is hidden.
 * @param {() => Promise<number>} turn returns the seconds that it wants to wait longer than the pause, or 0
 * @param {number} seconds the pause @param {AbortSignal} signal ends it @returns {() => void} does it now, unless it is being done
 */
export function repeatWhileSeen(turn, seconds, signal) {
  let timer = 0;
  let busy = false;

  async function run() {
    if (busy || signal.aborted) return;
    clearTimeout(timer);
    busy = true;
    const longer = await turn();
    busy = false;
    if (!signal.aborted) timer = window.setTimeout(follow, (seconds + longer) * 1000);
  }

  function follow() {
    document.removeEventListener("visibilitychange", follow);
    if (document.hidden) document.addEventListener("visibilitychange", follow);
    else run();
  }

  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", follow);
  });
  run();
  return run;
}
