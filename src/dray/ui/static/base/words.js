/**
 * Numbers and lists in sentences, and the order of names.
 */
const ORDER = new Intl.Collator("en", { numeric: true });
const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/**
 * Compares names so that gpu-10 comes after gpu-9.
 *
 * @param {string} one
 * @param {string} other
 */
export function byName(one, other) {
  return ORDER.compare(one, other);
}

/** @param {number} value */
export function number(value) {
  return NUMBER.format(value);
}

/**
 * @param {number} amount
 * @param {string} noun
 * @param {string} [plural]
 */
export function counted(amount, noun, plural = `${noun}s`) {
  return `${number(amount)} ${amount === 1 ? noun : plural}`;
}

/**
 * The first of some words, with the number of the others.
 *
 * @param {readonly string[]} words
 */
export function some(words) {
  return words.length > 1 ? `${words[0]} and ${words.length - 1} more` : words[0] ?? "";
}
