/**
 * Shows a command with a button that copies it.
 */
import { answer } from "../base/announcements.js";
import { button, h } from "../base/dom.js";

/** @param {string} text */
export function command(text) {
  return h("div", { class: "command" }, h("code", null, text), copyButton(text, "command"));
}

/**
 * @param {string} text
 * @param {string} what
 */
export function copyButton(text, what) {
  const copy = button("Copy", () => copied(), { class: "small", "aria-label": `Copy the ${what}` });
  const copied = async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
      answer(`The ${what} was copied`);
    } catch {
      copy.textContent = "Not allowed";
      answer("The browser did not allow to copy");
    }
    setTimeout(() => {
      copy.textContent = "Copy";
    }, 2000);
  };
  return copy;
}
