/**
 * Tells screen readers what changed, politely and not too often.
 */
const PAUSE = 4000;

/** @type {string[]} */
let pending = [];
let timer = 0;

/**
 * Says a sentence; of many that come at once, the newest is said with the number of the others.
 *
 * @param {string} sentence
 */
export function announce(sentence) {
  pending.push(sentence);
  timer ||= setTimeout(say, PAUSE);
}

/**
 * Says a sentence now: the answer to what the user did.
 *
 * @param {string} sentence
 */
export function answer(sentence) {
  const region = document.getElementById("announcements");
  if (region) {
    region.textContent = sentence;
  }
}

function say() {
  timer = 0;
  const others = pending.length - 1;
  answer(`${pending.at(-1)}${others > 0 ? `, and ${others} more changes` : ""}`);
  pending = [];
}
